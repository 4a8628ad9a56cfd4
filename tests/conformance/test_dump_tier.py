"""Kafka's own tools read what our broker puts into the tier, and its account of it.

A tiered topic is filled until all but its newest segments are in the tier and gone from the local
directory; the broker is killed, started again and fills some more. Then kafka-dump-log reads the
copies, under the names that it insists on, and `__remote_log_metadata` through Kafka's own decoder.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tierlog.bench.harness.processes.live_files import live_paths
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.tiering.store.object_keys import parse_object_key

from ..waiting import wait_until
from .dump_log import Dump, check_segments, dump, files_in
from .java_programs import run_java
from .real_records import Sending, Sent, check_against, create, produce

pytestmark = pytest.mark.requires("java", "mvn")

TOPIC = "tiered"
CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1",
    "index.interval.bytes": "1",
}
PROPERTIES = {
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
}
RECORDS_EACH = 2_000
RECORDS_BEFORE_THE_RESTART = 2 * RECORDS_EACH
PARTS = {".log", ".index", ".timeindex", ".snapshot", ".leader_epoch_checkpoint", ".manifest"}
STARTED = re.compile(
    r"RemoteLogSegmentMetadata\{remoteLogSegmentId=RemoteLogSegmentId\{"
    rf"topicIdPartition=(?P<topic_id>\S+):{TOPIC}-0, id=(?P<id>\S+)\}}, "
    r"startOffset=(?P<start>\d+), endOffset=(?P<end>\d+), brokerId=0, "
    r"maxTimestampMs=(?P<timestamp>\d+), eventTimestampMs=\d+, "
    r"segmentLeaderEpochs=\{(?P<epochs>[^}]*)\}, segmentSizeInBytes=(?P<size>\d+), "
    r"customMetadata=\S+, state=COPY_SEGMENT_STARTED, txnIdxEmpty=true\}"
)
UPDATE = re.compile(
    r"RemoteLogSegmentMetadataUpdate\{remoteLogSegmentId=RemoteLogSegmentId\{"
    rf"topicIdPartition=(?P<topic_id>\S+):{TOPIC}-0, id=(?P<id>\S+)\}}, "
    r"customMetadata=\S+, state=(?P<state>\w+), eventTimestampMs=\d+, brokerId=0\}"
)


class Copy(NamedTuple):
    """What the metadata topic tells of a segment whose copy was finished."""

    segment_id: str
    start_offset: int
    end_offset: int
    size: int
    max_timestamp: int
    epochs: list[str]


class Story(NamedTuple):
    """What is on the disk and in the tier once the broker has stopped."""

    logs: Path
    tier: Path
    sent: Mapping[int, Sent]


def only_two_segments_are_local(node: TierlogNode) -> bool:
    """The active one, and perhaps one more that retention has not come to."""
    directory = node.directory / "logs" / f"{TOPIC}-0"
    return len(list(directory.glob("*.log"))) <= 2


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    directory = tmp_path_factory.mktemp("broker")
    sent: dict[int, Sent] = {}
    node = TierlogNode(directory, properties=PROPERTIES)

    def fill_and_wait(name: str, codec: str) -> None:
        sending = Sending(name, codec, is_idempotent=True)
        sent.update(produce(node.bootstrap, TOPIC, sending, RECORDS_EACH))
        wait_until(lambda: only_two_segments_are_local(node), 60, lambda: node.output)

    node.start()
    try:
        create(node.bootstrap, TOPIC, CONFIG)
        fill_and_wait("before the kill", "none")
        fill_and_wait("compressed", "lz4")
    finally:
        node.kill()
    with node:
        fill_and_wait("after the kill", "none")
    return Story(directory / "logs", directory / "remote", sent)


class Events(NamedTuple):
    """All that the metadata topic says, by segment id."""

    started: dict[str, Copy]
    states: dict[str, list[str]]
    """What became of each after it was started."""


@pytest.fixture(scope="module")
def events(story: Story) -> Events:
    directories = sorted(story.logs.glob("__remote_log_metadata-*"))
    assert len(directories) == 2
    flag = "--remote-log-metadata-decoder"
    found = Events({}, {})
    for log in [log for path in directories for log in check_segments(path, flag)]:
        for each in log.records:
            assert each.payload is not None
            if started := STARTED.fullmatch(each.payload):
                found.started[started["id"]] = _copy(started)
                found.states[started["id"]] = []
            else:
                update = UPDATE.fullmatch(each.payload)
                assert update, each.payload
                found.states[update["id"]].append(update["state"])
    return found


@pytest.fixture(scope="module")
def finished(events: Events) -> list[Copy]:
    """What counts, in offset order."""
    ids = [each for each, states in events.states.items() if states == ["COPY_SEGMENT_FINISHED"]]
    return sorted((events.started[each] for each in ids), key=lambda copy: copy.start_offset)


def _copy(started: re.Match[str]) -> Copy:
    return Copy(
        started["id"],
        int(started["start"]),
        int(started["end"]),
        int(started["size"]),
        int(started["timestamp"]),
        started["epochs"].split(", "),
    )


@pytest.fixture(scope="module")
def copies(story: Story, finished: list[Copy], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished copies, laid out and named as segments in a partition's directory."""
    directory = tmp_path_factory.mktemp("copies") / f"{TOPIC}-0"
    directory.mkdir()
    for copy in finished:
        paths = list(story.tier.glob(f"*/*-{copy.segment_id}.*"))
        assert {path.suffix for path in paths} == PARTS
        for path in paths:
            key = parse_object_key(f"{path.parent.name}/{path.name}")
            assert key is not None
            assert key.start_offset == copy.start_offset
            shutil.copy(path, directory / f"{copy.start_offset:020}{path.suffix}")
    return directory


@pytest.fixture(scope="module")
def segments(copies: Path) -> list[Dump]:
    return check_segments(copies)


def test_the_tier_and_the_disk_together_hold_what_was_acknowledged(
    story: Story, segments: list[Dump]
) -> None:
    local = check_segments(story.logs / f"{TOPIC}-0")
    assert len(segments) >= 3
    assert len(local) <= 2
    end_of_tier = segments[-1].batches[-1].last_offset
    assert local[0].start_offset <= end_of_tier + 1, "nothing between the tier and the disk"
    rest = [log for log in local if log.start_offset > end_of_tier]
    check_against([*segments, *rest], story.sent)


def test_the_copied_indexes_are_whole(segments: list[Dump]) -> None:
    for log in segments:
        expected = [(batch.last_offset, batch.position) for batch in log.batches[1:]]
        # A segment that was opened without a recovery counts the bytes since its last index entry
        # from there on, as Kafka does: the first batch after the restart may have no entry.
        optional = {
            (batch.last_offset, batch.position)
            for batch in log.batches
            if batch.base_offset == RECORDS_BEFORE_THE_RESTART
        }
        assert sorted({*log.offset_entries, *optional}) == sorted({*expected, *optional})
        assert log.offset_entries == sorted(log.offset_entries)
        assert log.time_entries[-1][0] == max(batch.timestamp for batch in log.batches)


def test_a_copied_snapshot_is_that_of_the_end_of_its_segment(
    copies: Path, segments: list[Dump]
) -> None:
    snapshots = dump(files_in(copies, ".snapshot"))
    last: dict[int, int] = {}
    for log, snapshot in zip(segments, snapshots.values(), strict=True):
        last.update((batch.producer_id, batch.last_offset) for batch in log.batches)
        assert {each.producer_id: each.last_offset for each in snapshot.producers} == last


def test_kafkas_classes_read_the_copied_leader_epochs(copies: Path, segments: list[Dump]) -> None:
    paths = files_in(copies, ".leader_epoch_checkpoint")
    answers = run_java("Checkpoints.java", [f"epochs\t{path}" for path in paths])
    firsts: dict[int, int] = {}
    for log, answer in zip(segments, answers, strict=True):
        for batch in log.batches:
            firsts.setdefault(batch.leader_epoch, batch.base_offset)
        # The history up to the end of the segment, and nothing that came later.
        assert answer.split() == [f"{epoch}={offset}" for epoch, offset in firsts.items()]


def test_the_metadata_topic_tells_the_truth_of_every_copy(
    finished: list[Copy], segments: list[Dump]
) -> None:
    for copy, log in zip(finished, segments, strict=True):
        last = log.batches[-1]
        epochs: dict[int, int] = {}
        for batch in log.batches:
            epochs.setdefault(batch.leader_epoch, batch.base_offset)
        assert copy == Copy(
            copy.segment_id,
            log.start_offset,
            last.last_offset,
            last.position + last.size,
            max(batch.timestamp for batch in log.batches),
            [f"{epoch}={offset}" for epoch, offset in epochs.items()],
        )


def test_an_attempt_that_a_kill_or_a_stop_cut_short_never_counts(
    story: Story, events: Events, finished: list[Copy]
) -> None:
    cut_short = events.started.keys() - {copy.segment_id for copy in finished}
    removal = ["DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"]
    for segment_id in cut_short:
        states = events.states[segment_id]
        assert states == removal[: len(states)]
        if states == removal:
            assert not list(live_paths(story.tier, f"*/*-{segment_id}.*"))
