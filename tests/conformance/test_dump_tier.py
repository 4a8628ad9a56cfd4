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

from tierlog.bench.tierlog_node import TierlogNode
from tierlog.tiering.object_keys import ObjectKey, parse_object_key

from ..waiting import wait_until
from .dump_log import Dump, check_segments, dump, files_in
from .real_records import Sending, Sent, check_against, create, produce
from .test_messages_against_java import run_java

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
STARTED = re.compile(
    r"RemoteLogSegmentMetadata\{remoteLogSegmentId=RemoteLogSegmentId\{"
    rf"topicIdPartition=(?P<topic_id>\S+):{TOPIC}-0, id=(?P<id>\S+)\}}, "
    r"startOffset=(?P<start>\d+), endOffset=(?P<end>\d+), brokerId=0, "
    r"maxTimestampMs=(?P<timestamp>\d+), eventTimestampMs=\d+, "
    r"segmentLeaderEpochs=\{(?P<epochs>[^}]*)\}, segmentSizeInBytes=(?P<size>\d+), "
    r"customMetadata=\S+, state=COPY_SEGMENT_STARTED, txnIdxEmpty=true\}"
)
FINISHED = re.compile(
    r"RemoteLogSegmentMetadataUpdate\{remoteLogSegmentId=RemoteLogSegmentId\{"
    rf"topicIdPartition=(?P<topic_id>\S+):{TOPIC}-0, id=(?P<id>\S+)\}}, "
    r"customMetadata=\S+, state=COPY_SEGMENT_FINISHED, eventTimestampMs=\d+, brokerId=0\}"
)


class Story(NamedTuple):
    """What is on the disk and in the tier once the broker has stopped."""

    logs: Path
    copies: Path
    """The objects that count, named as in a partition's directory."""
    keys: Mapping[int, ObjectKey]
    """By start offset."""
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
    copies, keys = copies_by_offset(directory)
    return Story(directory / "logs", copies, keys, sent)


def copies_by_offset(directory: Path) -> tuple[Path, dict[int, ObjectKey]]:
    """Lay the tier's objects out as segments in a directory.

    Of a segment that the kill interrupted only the attempt that reached its manifest counts.
    """
    copies = directory / f"{TOPIC}-0"
    copies.mkdir()
    keys: dict[int, ObjectKey] = {}
    for manifest in sorted((directory / "remote").glob("*/*.manifest")):
        key = parse_object_key(f"{manifest.parent.name}/{manifest.name}")
        assert key is not None
        keys[key.start_offset] = key
        for path in manifest.parent.glob(f"{manifest.stem}.*"):
            shutil.copy(path, copies / f"{key.start_offset:020}{path.suffix}")
    return copies, keys


@pytest.fixture(scope="module")
def segments(story: Story) -> list[Dump]:
    return check_segments(story.copies)


def test_the_tier_and_the_disk_together_hold_what_was_acknowledged(
    story: Story, segments: list[Dump]
) -> None:
    local = check_segments(story.logs / f"{TOPIC}-0")
    assert len(segments) >= 4
    assert len(local) <= 2
    end_of_tier = segments[-1].batches[-1].last_offset
    assert local[0].start_offset <= end_of_tier + 1, "nothing between the tier and the disk"
    rest = [log for log in local if log.start_offset > end_of_tier]
    check_against([*segments, *rest], story.sent)


def test_the_copied_indexes_are_whole(segments: list[Dump]) -> None:
    for log in segments:
        expected = [(batch.last_offset, batch.position) for batch in log.batches[1:]]
        assert log.offset_entries == expected
        assert log.time_entries[-1][0] == max(batch.timestamp for batch in log.batches)


def test_a_copied_snapshot_is_that_of_the_end_of_its_segment(
    story: Story, segments: list[Dump]
) -> None:
    snapshots = dump(files_in(story.copies, ".snapshot"))
    last: dict[int, int] = {}
    for log, snapshot in zip(segments, snapshots.values(), strict=True):
        last.update((batch.producer_id, batch.last_offset) for batch in log.batches)
        assert {each.producer_id: each.last_offset for each in snapshot.producers} == last


def test_kafkas_classes_read_the_copied_leader_epochs(story: Story, segments: list[Dump]) -> None:
    paths = files_in(story.copies, ".leader_epoch_checkpoint")
    answers = run_java("Checkpoints.java", [f"epochs\t{path}" for path in paths])
    firsts: dict[int, int] = {}
    for log, answer in zip(segments, answers, strict=True):
        for batch in log.batches:
            firsts.setdefault(batch.leader_epoch, batch.base_offset)
        # The history up to the end of the segment, and nothing that came later.
        assert answer.split() == [f"{epoch}={offset}" for epoch, offset in firsts.items()]


def test_the_metadata_topic_tells_of_every_copy(story: Story, segments: list[Dump]) -> None:
    directories = sorted(story.logs.glob("__remote_log_metadata-*"))
    assert len(directories) == 2
    flag = "--remote-log-metadata-decoder"
    records = [
        each for path in directories for log in check_segments(path, flag) for each in log.records
    ]
    started: dict[str, re.Match[str]] = {}
    finished: set[str] = set()
    for each in records:
        assert each.payload is not None
        if found := STARTED.fullmatch(each.payload):
            started[found["id"]] = found
        else:
            found = FINISHED.fullmatch(each.payload)
            assert found, each.payload
            assert found["id"] in started
            finished.add(found["id"])
    told = {int(started[each]["start"]): started[each] for each in finished}
    assert sorted(told) == sorted(story.keys) == [log.start_offset for log in segments]
    for log in segments:
        found, last = told[log.start_offset], log.batches[-1]
        assert int(found["end"]) == last.last_offset
        assert int(found["size"]) == last.position + last.size
        assert int(found["timestamp"]) == max(batch.timestamp for batch in log.batches)
        epochs: dict[int, int] = {}
        for batch in log.batches:
            epochs.setdefault(batch.leader_epoch, batch.base_offset)
        assert found["epochs"].split(", ") == [f"{key}={value}" for key, value in epochs.items()]
