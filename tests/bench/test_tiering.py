"""The benchmark of tiering measures what it says."""

from pathlib import Path

import pytest

from tierlog.bench.load import create_topic
from tierlog.bench.steady_load import SteadyLoad, produce_steadily, quantile
from tierlog.bench.tiered_pair import (
    TIERED,
    UNTIERED,
    bytes_in_tier,
    enable_tiering,
    limit_copying,
    wait_until_copied,
)
from tierlog.bench.tiering import Scale, Theft
from tierlog.bench.tierlog_node import TierlogNode

OFTEN = {"remote.log.manager.task.interval.ms": "100"}
SMALL = {"segment.bytes": "1048576"}


def test_a_quantile_is_a_value_that_was_measured() -> None:
    ordered = [float(number) for number in range(1, 101)]
    assert quantile(ordered, 0.5) == 50
    assert quantile(ordered, 0.99) == 99
    assert quantile(ordered, 0.999) == 100
    assert quantile([7.0], 0.01) == 7


def test_throughput_lost_is_per_ten_megabytes_copied() -> None:
    assert Theft(100, 90, 50).percent_per_10_megabytes == pytest.approx(2)
    assert Theft(100, 100, 50).percent_per_10_megabytes == 0
    assert Theft(100, 50, 0).percent_per_10_megabytes == 0


def test_rounds_to_warm_up_come_first() -> None:
    assert list(Scale(rounds=2, warm_up=1).turns()) == [(0, False), (1, True), (2, True)]


def test_every_record_of_a_steady_load_is_acknowledged_and_timed(tmp_path: Path) -> None:
    with TierlogNode(tmp_path) as node:
        create_topic(node.bootstrap, "steady", UNTIERED)
        found = produce_steadily(node.bootstrap, "steady", SteadyLoad(1000, 100, 1, 0.2))
    assert list(found) == ["p50", "p99", "p99.9", "p100"]
    assert 0 < found["p50"] <= found["p99"] <= found["p99.9"] <= found["p100"]


def test_a_topic_goes_to_the_tier_when_it_is_told_to(tmp_path: Path) -> None:
    with TierlogNode(tmp_path, properties=OFTEN) as node:
        limit_copying(node, 50_000_000)
        create_topic(node.bootstrap, "later", {**UNTIERED, **SMALL})
        produce_steadily(node.bootstrap, "later", SteadyLoad(10_000, 1000, 0.5, 0))
        assert bytes_in_tier(node, "later") == 0
        enable_tiering(node, "later")
        wait_until_copied(node, "later", 3_000_000)
        assert bytes_in_tier(node, "later") >= 3_000_000
    assert TIERED["remote.storage.enable"] == "true"
