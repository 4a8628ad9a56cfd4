"""`tierlog-bench size` prints what each broker needs, and says when there are too few."""

import pytest

from tierlog.bench.__main__ import main
from tierlog.bench.sizing.costs import TABLE


def test_ten_brokers_and_a_thousand_partitions(capsys: pytest.CaptureFixture[str]) -> None:
    plan = ("--brokers", "10", "--partitions", "1000", "--mb-per-s", "50")
    assert main(["size", *plan]) == 0
    printed = capsys.readouterr().out
    rows = {line[:22].strip(): line[22:].split() for line in printed.splitlines()}
    assert rows["partitions led"] == ["100", "112"]
    assert rows["network in"] == ["15.0", "15.0", "MB/s"]
    assert rows["CPU"][-1] == "cores"
    assert "9.1 TB of records" in printed
    assert "in the tier" not in printed
    assert "Enough CPU" in printed


def test_a_tier_is_on_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "--mb-per-s", "1", "--local-retention-hours", "6"]) == 0
    printed = capsys.readouterr().out
    assert "tiered after 6 h" in printed
    assert "in the tier            605 GB, one copy" in printed


def test_too_few_brokers_are_named_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "--mb-per-s", "1000"]) == 0
    assert "Too few brokers: with one down" in capsys.readouterr().out


def test_a_load_beyond_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "--mb-per-s", "100000000"]) == 0
    assert "more brokers than the model is for" in capsys.readouterr().out


def test_one_broker_has_no_column_for_its_loss(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "--brokers", "1", "--partitions", "10"]) == 0
    printed = capsys.readouterr().out
    assert "one down" not in printed
    assert "with RF 1" in printed


def test_the_constants_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "--costs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [cost.name for cost in TABLE]


def test_a_plan_that_cannot_be_ends_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "--brokers", "2", "--rf", "3"]) == 2
    assert "3 replicas need as many brokers" in capsys.readouterr().err
