"""Where a tiered log begins and ends, whatever happens to it (2.3, 2.7, 2.10, 2.11, 2.15)."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tierlog.tests.scenarios.tiering.one_broker import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    PENDING,
    WAIT_S,
    OneBroker,
    numbered,
)
from tierlog.tests.scenarios.tiering.tier_stores import DirectoryTier, TierStore
from tierlog.tests.waiting import wait_until

pytestmark = pytest.mark.slow

CHECKPOINTS = [
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    ".kafka_cleanshutdown",
]


def garbled(path: Path) -> None:
    path.write_bytes(b"\x00garbled\xff")


@pytest.mark.scenario("2.3")
@pytest.mark.parametrize("harm", [Path.unlink, garbled], ids=["lost", "garbled"])
@pytest.mark.parametrize("pattern", [*CHECKPOINTS, "everything"])
def test_checkpoints_that_are_lost(
    pattern: str, harm: Callable[[Path], None], tmp_path: Path, store: DirectoryTier
) -> None:
    """The log start must not become the local log start, nor be copied what is there already."""
    with OneBroker(tmp_path, store) as broker:
        broker.create("topicA")
        broker.produce("topicA", range(4))
        broker.wait_for_segments("topicA", {number: [number] for number in range(3)})
        broker.wait_for_local("topicA", 3)
        broker.node.stop()
        for each in CHECKPOINTS if pattern == "everything" else [pattern]:
            for log_dir in broker.log_dirs:
                for path in log_dir.glob(each):
                    harm(path)
        broker.node.start()
        broker.wait_for_offset("topicA", LATEST, (4, broker.offset("topicA", LATEST)[1]))
        assert broker.offset("topicA", EARLIEST)[0] == 0
        broker.consume("topicA", 0, 4, tier=3)
        broker.produce("topicA", [4, 5])
        broker.wait_for_segments("topicA", {number: [number] for number in range(5)})
        broker.wait_for_local("topicA", 5)
        broker.consume("topicA", 0, 6, tier=5)


@pytest.mark.scenario("2.7")
def test_records_deleted_in_the_tier_and_here(tmp_path: Path, each_store: TierStore) -> None:
    with OneBroker(tmp_path, each_store) as broker:
        broker.create("topicA", per_segment=2)
        broker.produce("topicA", range(9))
        whole = {0: [0, 1], 2: [2, 3], 4: [4, 5], 6: [6, 7]}
        broker.wait_for_segments("topicA", whole)
        broker.wait_for_local("topicA", 8)
        # In the midst of a segment: it stays, and its beginning is not shown any more.
        broker.delete_records("topicA", 1)
        assert broker.offset("topicA", EARLIEST) == (1, 0)
        assert broker.first_epoch("topicA") == (0, 1)
        assert broker.read("topicA", 0, 8) == numbered(range(1, 9))
        assert broker.segments("topicA") == {start: numbered(on) for start, on in whole.items()}
        broker.delete_records("topicA", 5)
        broker.wait_for_segments("topicA", {4: [4, 5], 6: [6, 7]})
        assert broker.count("RemoteDeleteRequestsPerSec", "topicA") == 2
        assert broker.read("topicA", 5, 4) == numbered(range(5, 9))
        broker.crash()
        assert broker.offset("topicA", EARLIEST)[0] == 5
        assert broker.read("topicA", 5, 4) == numbered(range(5, 9))
        # Beyond what is here: the local log begins where the log does.
        broker.delete_records("topicA", 9)
        broker.wait_until_empty("topicA")
        assert broker.offset("topicA", EARLIEST)[0] == 9
        assert broker.offset("topicA", EARLIEST_LOCAL)[0] == 9
        broker.produce("topicA", [9])
        assert broker.read("topicA", 0, 1) == numbered([9])


@pytest.mark.scenario("2.10")
@pytest.mark.scenario("6")
def test_offsets_by_name_and_time_all_along(tmp_path: Path, store: DirectoryTier) -> None:
    base = int(time.time() * 1_000)
    with OneBroker(tmp_path, store) as broker:
        broker.create("topicA")
        names = (EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, PENDING, MAX_TIMESTAMP, base)

        def all_offsets() -> list[tuple[int, int]]:
            return [broker.offset("topicA", name) for name in names]

        none = (-1, -1)
        assert all_offsets() == [(0, 0), (0, 0), (0, 0), none, none, none, none]
        broker.produce("topicA", [0], timestamp=base)
        assert all_offsets() == [(0, 0), (0, 0), (1, 0), none, (0, 0), (0, 0), (0, 0)]
        broker.produce("topicA", [1], timestamp=base + 100)
        broker.produce("topicA", [2], timestamp=base + 50)
        broker.wait_for_segments("topicA", {0: [0], 1: [1]})
        broker.wait_for_local("topicA", 2)
        # The youngest record is in the tier, and so is the first one: both are found there.
        assert all_offsets() == [(0, 0), (2, 0), (3, 0), (1, 0), (2, 0), (1, 0), (0, 0)]
        assert broker.offset("topicA", base + 1) == (1, 0)
        assert broker.offset("topicA", base + 50) == (1, 0)
        assert broker.offset("topicA", base + 101) == none
        broker.bounce()
        broker.wait_for_offset("topicA", LATEST_TIERED, (1, 0))
        broker.produce("topicA", [3], timestamp=base + 200)
        broker.wait_for_segments("topicA", {0: [0], 1: [1], 2: [2]})
        broker.wait_for_local("topicA", 3)
        epoch = broker.offset("topicA", LATEST)[1]
        assert epoch > 0
        expected = [(0, 0), (3, epoch), (4, epoch), (2, 0), (3, epoch), (3, epoch), (0, 0)]
        assert all_offsets() == expected
        broker.delete_records("topicA", 2)
        broker.wait_for_segments("topicA", {2: [2]})
        expected[0] = expected[-1] = (2, 0)
        assert all_offsets() == expected


@pytest.mark.scenario("2.11")
def test_the_last_tiered_offset_outlives_its_records(tmp_path: Path, store: DirectoryTier) -> None:
    with OneBroker(tmp_path, store) as broker:
        broker.create("topicA")
        broker.produce("topicA", range(3))
        broker.wait_for_segments("topicA", {0: [0], 1: [1]})
        broker.bounce()
        broker.produce("topicA", [3])
        broker.wait_for_segments("topicA", {0: [0], 1: [1], 2: [2]})
        broker.wait_for_local("topicA", 3)
        epoch = broker.offset("topicA", LATEST)[1]
        assert broker.offset("topicA", LATEST_TIERED) == (2, 0)
        assert broker.first_epoch("topicA") == (0, 0)
        broker.delete_records("topicA", 1)
        broker.wait_for_segments("topicA", {1: [1], 2: [2]})
        assert broker.first_epoch("topicA") == (0, 1)
        assert broker.offset("topicA", LATEST_TIERED) == (2, 0)
        broker.delete_records("topicA", 3)
        broker.wait_until_empty("topicA")
        assert broker.first_epoch("topicA") == (epoch, 3)
        assert broker.offset("topicA", EARLIEST) == (3, epoch)
        # Its epoch has gone with its records.
        assert broker.offset("topicA", LATEST_TIERED) == (2, -1)
        assert broker.offset("topicA", PENDING) == (3, epoch)


@pytest.mark.scenario("2.15")
def test_after_each_start_the_remote_part_is_served(tmp_path: Path, each_store: TierStore) -> None:
    with OneBroker(tmp_path, each_store) as broker:
        broker.create("topicA", per_segment=2)
        end = 0
        for again in (broker.bounce, broker.crash, broker.crash, broker.bounce):
            broker.produce("topicA", range(end, end + 3))
            end += 3
            again()
            assert broker.offset("topicA", EARLIEST)[0] == 0
            assert broker.read("topicA", 0, end) == numbered(range(end))
        broker.produce("topicA", [end])
        # All but the open segment goes. A segment that was open at a start holds fewer records,
        # so where the open one begins is not foretold.
        wait_until(lambda: len(broker.local_starts("topicA")) == 1, WAIT_S, "still here")
        assert end - 3 <= broker.local_starts("topicA")[0] <= end
        copied = [at for each in broker.segments("topicA").values() for at in each]
        assert copied == numbered(range(len(copied)))
        assert broker.offset("topicA", EARLIEST_LOCAL)[0] == len(copied)
        broker.consume("topicA", 0, end + 1, tier=len(copied))
