"""Transactions whose records and markers lie in the tier, in segments of their own (2.13)."""

from pathlib import Path

import pytest

from tierlog.tests.scenarios.tiering.one_broker import EARLIEST, UNCOMMITTED, OneBroker, numbered
from tierlog.tests.scenarios.tiering.tier_stores import DirectoryTier, TierStore

pytestmark = pytest.mark.slow


@pytest.mark.scenario("2.13")
def test_each_reader_sees_what_it_may(tmp_path: Path, each_store: TierStore) -> None:
    """The marker of an abort lies in another segment than what it takes back (KIP-1058)."""
    with OneBroker(tmp_path, each_store) as broker:
        broker.create("topicA")
        broker.transact("topicA", range(3), commit=True)
        broker.transact("topicA", range(4, 6), commit=False)
        broker.transact("topicA", [7], commit=True)
        broker.produce("topicA", [9])
        whole = {0: [0], 1: [1], 2: [2], 3: [], 4: [4], 5: [5], 6: [], 7: [7], 8: []}
        broker.wait_for_segments("topicA", whole)
        broker.wait_for_local("topicA", 9)
        with_aborts = [key.start_offset for key in broker.objects("topicA", suffix="txnindex")]
        assert with_aborts == [6]
        seen = [0, 1, 2, 7, 9]
        broker.bounce()
        for start in (0, 2, 4, 5, 6, 7, 9):
            expected = numbered(each for each in seen if each >= start)
            assert broker.read("topicA", start, len(expected)) == expected
        everything = numbered([0, 1, 2, 4, 5, 7, 9])
        assert broker.read("topicA", 0, 7, isolation=UNCOMMITTED) == everything
        broker.delete_records("topicA", 5)
        assert broker.offset("topicA", EARLIEST)[0] == 5
        assert broker.read("topicA", 5, 2) == numbered([7, 9])
        assert broker.read("topicA", 5, 3, isolation=UNCOMMITTED) == numbered([5, 7, 9])


@pytest.mark.scenario("2.13")
def test_an_open_transaction_holds_its_records_here(tmp_path: Path, store: DirectoryTier) -> None:
    """Nothing at or above the last stable offset goes to the tier."""
    with OneBroker(tmp_path, store) as broker:
        broker.create("topicA")
        broker.produce("topicA", range(2))
        hanging = broker.begin("topicA", 2)
        broker.produce("topicA", range(3, 6))
        broker.wait_for_segments("topicA", {0: [0], 1: [1]})
        broker.wait_for_local("topicA", 2)
        assert broker.read("topicA", 0, 2) == numbered(range(2))
        assert broker.read("topicA", 0, 6, isolation=UNCOMMITTED) == numbered(range(6))
        assert broker.local_starts("topicA") == [2, 3, 4, 5]
        hanging.abort_transaction(60)
        broker.produce("topicA", [7])
        cut = {number: [number] for number in range(6)} | {6: []}
        broker.wait_for_segments("topicA", cut)
        broker.wait_for_local("topicA", 7)
        expected = numbered([0, 1, 3, 4, 5, 7])
        assert broker.read("topicA", 0, 6) == expected
