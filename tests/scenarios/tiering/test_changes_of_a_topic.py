"""Topics that change while they are tiered (2.2, 2.5, 2.12, 2.14), and what else may come."""

from pathlib import Path

import pytest

from tierlog.tests import wire
from tierlog.tests.broker_process import RawClient
from tierlog.tests.scenarios.tiering.one_broker import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    WAIT_S,
    OneBroker,
    numbered,
)
from tierlog.tests.scenarios.tiering.tier_stores import DirectoryTier, TierStore
from tierlog.tests.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.mark.scenario("2.2")
@pytest.mark.parametrize("per_segment", [1, 2, 5])
def test_a_full_index_closes_its_segment(
    per_segment: int, tmp_path: Path, store: DirectoryTier
) -> None:
    count = 3 * per_segment + 1
    with OneBroker(tmp_path, store) as broker:
        broker.create("topicA", per_segment=per_segment)
        broker.produce("topicA", range(count))
        starts = range(0, 3 * per_segment, per_segment)
        cut = {start: range(start, start + per_segment) for start in starts}
        broker.wait_for_segments("topicA", cut)
        broker.wait_for_local("topicA", 3 * per_segment)
        assert broker.local_starts("topicA") == [3 * per_segment]
        broker.consume("topicA", 0, count, tier=count - 1, fetches=3)


@pytest.mark.scenario("2.5")
def test_a_topic_that_was_there_is_tiered(tmp_path: Path, store: DirectoryTier) -> None:
    with OneBroker(tmp_path, store) as broker:
        broker.create("topicA", remote_storage_enable=False, local_retention_bytes=-2)
        broker.produce("topicA", range(4))
        assert broker.local_starts("topicA") == [0, 1, 2, 3]
        broker.consume("topicA", 0, 4, tier=0, fetches=0)
        broker.alter("topicA", remote_storage_enable=True, local_retention_bytes=1)
        broker.wait_for_segments("topicA", {0: [0], 1: [1], 2: [2]})
        broker.wait_for_local("topicA", 3)
        broker.consume("topicA", 0, 4, tier=3, fetches=3)
        broker.produce("topicA", [4])
        broker.wait_for_segments("topicA", {number: [number] for number in range(4)})


@pytest.mark.scenario("2.12")
def test_partitions_that_come_later_are_tiered_as_well(
    tmp_path: Path, store: DirectoryTier
) -> None:
    with OneBroker(tmp_path, store) as broker:
        broker.create("topicA")
        broker.produce("topicA", range(3))
        broker.wait_for_segments("topicA", {0: [0], 1: [1]})
        broker.expand("topicA", 5)
        for partition in range(1, 5):
            broker.produce("topicA", range(3), partition=partition)
        for partition in range(5):
            broker.wait_for_segments("topicA", {0: [0], 1: [1]}, partition)
            broker.wait_for_local("topicA", 2, partition)
            assert broker.read("topicA", 0, 3, partition) == numbered(range(3))
        broker.produce("topicA", [3])
        broker.wait_for_segments("topicA", {0: [0], 1: [1], 2: [2]})
        broker.crash()
        for partition in range(1, 5):
            assert broker.read("topicA", 0, 3, partition) == numbered(range(3))


@pytest.mark.scenario("2.14")
def test_a_tiered_partition_moves_to_another_directory(
    tmp_path: Path, store: DirectoryTier
) -> None:
    """KAFKA-16711, KAFKA-20961: its epochs and its log start move with it."""
    with OneBroker(tmp_path, store) as broker:
        broker.create("topicA")
        broker.produce("topicA", range(3))
        broker.bounce()
        broker.produce("topicA", [3])
        broker.wait_for_segments("topicA", {0: [0], 1: [1], 2: [2]})
        broker.wait_for_local("topicA", 3)
        before = broker.directory("topicA")
        epochs = (before / "leader-epoch-checkpoint").read_text()
        (target,) = [each for each in broker.log_dirs if each != before.parent]
        move(broker, "topicA", target)
        wait_until(lambda: (target / "topicA-0").is_dir(), WAIT_S, "it has not moved")
        assert not before.exists()
        assert (target / "topicA-0" / "leader-epoch-checkpoint").read_text() == epochs
        assert broker.offset("topicA", EARLIEST) == (0, 0)
        assert broker.offset("topicA", EARLIEST_LOCAL)[0] == 3
        broker.consume("topicA", 0, 4, tier=3, fetches=3)
        broker.produce("topicA", [4, 5])
        broker.wait_for_segments("topicA", {number: [number] for number in range(5)})
        broker.wait_for_local("topicA", 5)
        broker.crash()
        broker.consume("topicA", 0, 6, tier=5)


def move(broker: OneBroker, topic: str, target: Path) -> None:
    """Move partition 0 to a directory."""
    topics = [wire.AlterReplicaLogDirTopic(name=topic, partitions=[0])]
    request = wire.AlterReplicaLogDirsRequest(
        dirs=[wire.AlterReplicaLogDir(path=str(target), topics=topics)]
    )
    with RawClient(broker.node.port) as client:
        answer = client.ask(request, 2, wire.AlterReplicaLogDirsResponse)
    assert [each.error_code for each in answer.results[0].partitions] == [0]


def test_a_topic_without_a_record(tmp_path: Path, store: DirectoryTier) -> None:
    with OneBroker(tmp_path, store) as broker:
        broker.create("empty", local_retention_ms=1)
        broker.create("other", local_retention_ms=1)
        broker.produce("other", range(2))
        broker.wait_for_segments("other", {0: [0], 1: [1]})
        broker.bounce()
        assert broker.local_starts("empty") == [0]
        assert broker.offset("empty", EARLIEST)[0] == broker.offset("empty", LATEST)[0] == 0
        assert not broker.objects("empty")
        broker.delete_topic("empty")
        broker.produce("other", [2])
        broker.wait_for_segments("other", {0: [0], 1: [1], 2: [2]})


def test_its_rules_change_under_way(tmp_path: Path, store: DirectoryTier) -> None:
    """What is kept here follows what the topic says at the moment; nothing is lost on the way."""
    with OneBroker(tmp_path, store) as broker:
        broker.create("topicA")
        broker.produce("topicA", range(3))
        broker.wait_for_local("topicA", 2)
        broker.alter("topicA", local_retention_bytes=1_000_000, segment_index_bytes=36)
        broker.produce("topicA", range(3, 9))
        # The segment that was open is cut as it was begun.
        broker.wait_for_segments("topicA", {0: [0], 1: [1], 2: [2], 3: [3, 4, 5]})
        assert broker.local_starts("topicA") == [2, 3, 6]
        broker.alter("topicA", local_retention_bytes=None, retention_bytes=-1)
        broker.alter("topicA", local_retention_ms=1)
        broker.wait_for_local("topicA", 9)
        broker.consume("topicA", 0, 9, tier=9)
        broker.alter("topicA", local_retention_ms=None, segment_index_bytes=None)
        broker.produce("topicA", range(9, 12))
        broker.consume("topicA", 0, 12, tier=9)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_of_many_sizes_and_codecs(codec: str, tmp_path: Path, store: DirectoryTier) -> None:
    """Rolled by segment.bytes; every byte comes back, wherever reading begins."""
    with OneBroker(tmp_path, store) as broker:
        broker.create("mixed", per_segment=1_000, segment_bytes=1_048_576)
        values = [bytes([each % 251]) * (each * 7_919 % 120_000) for each in range(120)]
        broker.send("mixed", values, compression_type=codec, linger_ms=20)
        expected = 2 if codec == "none" else 0
        wait_until(lambda: len(broker.objects("mixed", suffix="manifest")) >= expected, WAIT_S, "")
        if codec == "none":
            wait_until(lambda: broker.local_starts("mixed")[0] > 0, WAIT_S, "all of it is here")
        for start in (0, 1, 33, 70):
            assert broker.values("mixed", start, 120 - start) == values[start:]


def test_a_broker_that_is_killed_again_and_again_copies_nothing_twice(
    tmp_path: Path, store: DirectoryTier
) -> None:
    with OneBroker(tmp_path, store) as broker:
        broker.create("topicA")
        end = 0
        for _ in range(5):
            broker.produce("topicA", range(end, end + 4))
            end += 4
            broker.crash()
        broker.wait_for_segments("topicA", {number: [number] for number in range(end - 1)})
        broker.wait_for_local("topicA", end - 1)
        broker.consume("topicA", 0, end, tier=end - 1)


def test_a_tier_that_is_away_for_a_while(tmp_path: Path, each_store: TierStore) -> None:
    """Nothing local goes, remote reads are tried again, retention waits; then all catches up."""
    store = each_store
    with OneBroker(tmp_path, store) as broker:
        broker.create("topicA")
        broker.produce("topicA", range(3))
        broker.wait_for_segments("topicA", {0: [0], 1: [1]})
        broker.wait_for_local("topicA", 2)
        broker.bounce()
        store.lose()
        broker.produce("topicA", range(3, 6))
        broker.delete_records("topicA", 1)
        assert broker.read("topicA", 2, 4) == numbered(range(2, 6))
        assert broker.offset("topicA", EARLIEST)[0] == 1
        assert broker.local_starts("topicA") == [2, 3, 4, 5]
        wait_until(lambda: "tier" in broker.node.output, WAIT_S, "nothing is said")
        store.come_back()
        broker.wait_for_segments("topicA", {number: [number] for number in range(1, 5)})
        broker.wait_for_local("topicA", 5)
        broker.consume("topicA", 1, 5, tier=4)
