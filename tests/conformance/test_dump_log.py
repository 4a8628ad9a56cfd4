"""Kafka's own kafka-dump-log reads what a broker of ours leaves on the disk.

A story with a real client: every codec, with and without idempotence, keys, values and headers that
are there or not, timestamps out of order, a group that commits, several segments. Its directory is
looked at twice: after a clean stop, and after more records, a kill -9 and a restart.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from tierlog.bench.harness.processes.kafka_peer import run_tool
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.clients.record.control import ControlRecordType

from ..storage.log_home import LogHome, append, end_transaction, idempotent
from .dump_log import Dump, check_segments, dump, files_in
from .java_programs import run_java
from .real_records import CODECS, Sending, Sent, check_against, consume_and_commit, create, produce

pytestmark = pytest.mark.requires("java", "mvn")

TOPIC = "codecs"
CONFIG = {"segment.bytes": "1048576", "index.interval.bytes": "1"}
RECORDS_EACH = 400
GROUP = "readers"
COMMITTED = 500
PROPERTIES = {"offsets.topic.num.partitions": "2", "node.id": "3"}


class Story(NamedTuple):
    """What a broker left in its log directory, and what it had acknowledged."""

    logs: Path
    sent: Mapping[int, Sent]
    recovered_at: int | None = None
    """Where the log ended after the kill."""

    @property
    def partition(self) -> Path:
        return self.logs / f"{TOPIC}-0"


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Story]:
    directory = tmp_path_factory.mktemp("broker")
    sent: dict[int, Sent] = {}
    node = TierlogNode(directory, properties=PROPERTIES)

    def send(name: str, codec: str, *, is_idempotent: bool) -> None:
        sending = Sending(name, codec, is_idempotent)
        sent.update(produce(node.bootstrap, TOPIC, sending, RECORDS_EACH))

    with node:
        create(node.bootstrap, TOPIC, CONFIG)
        for codec in CODECS:
            send(f"plain {codec}", codec, is_idempotent=False)
            send(f"idempotent {codec}", codec, is_idempotent=True)
        consume_and_commit(node.bootstrap, TOPIC, GROUP, COMMITTED)
    stopped = Story(directory / "stopped", dict(sent))
    shutil.copytree(directory / "logs", stopped.logs)
    node.start()
    try:
        send("before the kill", "lz4", is_idempotent=True)
        send("also before the kill", "none", is_idempotent=False)
    finally:
        node.kill()
    recovered_at = max(sent) + 1
    with node:
        send("after the kill", "zstd", is_idempotent=True)
    return {"stopped": stopped, "killed": Story(directory / "logs", sent, recovered_at)}


@pytest.fixture(params=["stopped", "killed"])
def story(request: pytest.FixtureRequest, stories: Mapping[str, Story]) -> Story:
    return stories[cast(str, request.param)]


@cache
def segments_of(partition: Path) -> list[Dump]:
    """What the tool says of a log; nothing changes it any more."""
    return check_segments(partition)


def payloads(logs: Sequence[Dump]) -> list[dict[str, object]]:
    """The values of records that a decoder prints as JSON."""
    texts = [each.payload for log in logs for each in log.records if each.payload is not None]
    return [cast("dict[str, object]", json.loads(text)) for text in texts]


def test_the_logs_hold_what_was_acknowledged(story: Story) -> None:
    logs = segments_of(story.partition)
    assert len(logs) >= 3
    check_against(logs, story.sent)


def test_every_batch_but_the_first_of_a_segment_and_of_a_start_has_its_index_entry(
    story: Story,
) -> None:
    for log in segments_of(story.partition):
        expected = [
            (batch.last_offset, batch.position)
            for batch in log.batches[1:]
            if batch.base_offset != story.recovered_at
        ]
        assert log.offset_entries == expected


def test_the_time_indexes_climb_to_each_segments_latest_record(story: Story) -> None:
    for log in segments_of(story.partition):
        times = [timestamp for timestamp, _ in log.time_entries]
        assert times == sorted(set(times))
        assert times[-1] == max(batch.timestamp for batch in log.batches)


def test_the_snapshots_hold_every_idempotent_producer(story: Story) -> None:
    batches = [each for log in segments_of(story.partition) for each in log.batches]
    snapshots = dump(files_in(story.partition, ".snapshot"))
    for path, snapshot in snapshots.items():
        last = {
            batch.producer_id: (batch.base_sequence, batch.last_offset)
            for batch in batches
            if batch.producer_id != -1 and batch.last_offset < int(path.stem)
        }
        found = {
            each.producer_id: (each.first_sequence, each.last_offset) for each in snapshot.producers
        }
        assert found == last
        assert all(each.epoch == 0 for each in snapshot.producers)
        assert all(each.transaction == "OptionalLong.empty" for each in snapshot.producers)
    newest = max(int(path.stem) for path in snapshots)
    assert newest == batches[-1].last_offset + 1, "a clean stop leaves a snapshot at the end"


def test_the_committed_offsets_are_read_by_the_offsets_decoder(story: Story) -> None:
    directories = sorted(story.logs.glob("__consumer_offsets-*"))
    assert len(directories) == 2
    logs = [log for each in directories for log in check_segments(each, "--offsets-decoder")]
    records = [each for log in logs for each in log.records]
    key = {"type": "1", "data": {"group": GROUP, "topic": TOPIC, "partition": 0}}
    commits = [each.payload for each in records if each.key and json.loads(each.key) == key]
    assert commits
    assert commits[-1] is not None
    assert f'"offset":{COMMITTED},' in commits[-1]
    groups = [each for each in records if each.key and '"type":"2"' in each.key]
    assert groups[0].payload is not None
    assert any(f'"topics":["{TOPIC}"]' in (each.payload or "") for each in groups)


def test_the_metadata_log_is_read_by_the_metadata_decoder(story: Story) -> None:
    logs = check_segments(story.logs / "__cluster_metadata-0", "--cluster-metadata-decoder")
    assert logs[0].records[0].control.startswith("LeaderChange: ")
    values = payloads(logs)
    topics = [value["data"] for value in values if value["type"] == "TOPIC_RECORD"]
    names = [cast("dict[str, object]", topic)["name"] for topic in topics]
    assert names == [TOPIC, "__consumer_offsets"]
    configs = [value["data"] for value in values if value["type"] == "CONFIG_RECORD"]
    for name, value in CONFIG.items():
        assert {"resourceType": 2, "resourceName": TOPIC, "name": name, "value": value} in configs


def test_kafkas_classes_read_the_checkpoints(story: Story) -> None:
    end = max(story.sent) + 1
    partition, logs = story.partition, story.logs
    asked = [
        f"offsets\t{logs / 'replication-offset-checkpoint'}",
        f"offsets\t{logs / 'recovery-point-offset-checkpoint'}",
        f"offsets\t{logs / 'log-start-offset-checkpoint'}",
        f"epochs\t{partition / 'leader-epoch-checkpoint'}",
        f"partition\t{partition / 'partition.metadata'}",
        f"shutdown\t{logs}",
        f"meta\t{logs}",
        f"quorum\t{logs / '__cluster_metadata-0' / 'quorum-state'}",
    ]
    watermarks, recovery, starts, epochs, metadata, shutdown, meta, quorum = run_java(
        "Checkpoints.java", asked
    )
    assert f"{TOPIC}-0={end}" in watermarks.split()
    assert f"{TOPIC}-0={end}" in recovery.split()
    assert starts == ""
    assert _epochs_of(segments_of(partition)) == epochs.split()
    assert metadata.split()[0] == "0"
    assert int(shutdown) >= 0
    assert meta.split()[1] == "3"
    assert quorum.split()[1] == "3"


def _epochs_of(logs: list[Dump]) -> list[str]:
    firsts: dict[int, int] = {}
    for log in logs:
        for batch in log.batches:
            firsts.setdefault(batch.leader_epoch, batch.base_offset)
    return [f"{epoch}={offset}" for epoch, offset in firsts.items()]


def test_the_indexes_are_verified_against_the_log(story: Story) -> None:
    indexes = [*files_in(story.partition, ".index"), *files_in(story.partition, ".timeindex")]
    filled = [path for path in indexes if path.stat().st_size]
    # Nothing but the names, and no mismatch: every other line fails in `dump`.
    verified = dump(filled, "--verify-index-only").values()
    assert len(verified) >= 4
    assert all(each == Dump() for each in verified)


def test_a_part_of_a_log_is_dumped_with_decoders_and_without_metadata(story: Story) -> None:
    log = files_in(story.partition, ".log")[0]
    whole = segments_of(story.partition)[0]
    decoders = [f"--{what}-decoder-class" for what in ("key", "value")]
    strings = [
        word for each in decoders for word in (each, "org.apache.kafka.tools.api.StringDecoder")
    ]
    (decoded,) = dump([log], "--print-data-log", "--max-bytes", "20000", *strings).values()
    assert 0 < len(decoded.batches) < len(whole.batches)
    assert decoded.batches == whole.batches[: len(decoded.batches)]
    assert decoded.records == whole.records[: len(decoded.records)]
    arguments = ("--skip-record-metadata", "--print-data-log", "--files", str(log))
    bare = run_tool("kafka-dump-log", *arguments).stdout
    assert bare.count(" payload: ") == len([each for each in whole.records if each.payload])
    assert "headerKeys" not in bare


def test_a_transaction_index_names_what_was_aborted(tmp_path: Path) -> None:
    home = LogHome(tmp_path)
    log = home.open()
    append(log, idempotent(0, count=3, producer=7, txn=True))
    append(log, idempotent(0, count=2, producer=8, txn=True))
    end_transaction(log, ControlRecordType.ABORT, producer=7)
    end_transaction(log, ControlRecordType.COMMIT, producer=8)
    append(log, idempotent(3, count=1, producer=7, txn=True))
    end_transaction(log, ControlRecordType.ABORT, producer=7)
    append(log, idempotent(2, count=1, producer=8, txn=True))
    log.close(0)
    (segment,) = check_segments(home.path)
    assert [batch.is_control for batch in segment.batches] == [
        False, False, True, True, False, True, False,
    ]  # fmt: skip
    controls = [each.control for each in segment.records if each.control]
    assert controls == [
        "endTxnMarker: ABORT coordinatorEpoch: 0",
        "endTxnMarker: COMMIT coordinatorEpoch: 0",
        "endTxnMarker: ABORT coordinatorEpoch: 0",
    ]
    (aborted,) = dump(files_in(home.path, ".txnindex")).values()
    assert aborted.aborted == [(7, 0, 5, 3), (7, 7, 8, 9)]
    (snapshot,) = dump(files_in(home.path, ".snapshot")).values()
    transactions = {each.producer_id: each.transaction for each in snapshot.producers}
    assert transactions == {7: "OptionalLong.empty", 8: "OptionalLong[9]"}
