"""The cost model multiplies what was counted with the user's own prices, and knows none itself."""

from pathlib import Path

import pytest

from tierlog.bench.figures import read_results
from tierlog.bench.reporting.cost import Traffic, cost_report, monthly_cost
from tierlog.bench.reporting.price_list import PriceListError, read_price_list
from tierlog.bench.reporting.report import write_report
from tierlog.bench.reporting.spread import measured_cells

from ...house_rules import ROOT
from .handmade_results import Folder

EXAMPLE = ROOT / "bench" / "reporting" / "prices.example.toml"

ROUND = """\
name = "Round numbers"
currency = "coins"
[prices]
stored_gb_month = 1
write_1000 = 10
read_1000 = 1
list_1000 = 0
delete_1000 = 0
read_gb = 0.5
written_gb = 0
disk_gb_month = 2
[workload]
produced_mb_per_s = 1
read_from_tier_mb_per_s = 0.5
retention_days = 10
local_retention_hours = 24
replicas = 3
disk_fill_percent = 50
"""


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(ROUND)
    return path


def test_a_month_is_requests_and_bytes_times_their_prices(prices: Path) -> None:
    """1 MB/s is 86.4 GB a day: 864 GB kept, 2,592 GB produced in a month."""
    copying, reading = Traffic(write=100, to_store=1.0), Traffic(read=250, from_store=1.0)
    cost = monthly_cost(read_price_list(prices), copying, reading)
    assert cost.stored == pytest.approx(864)
    assert cost.copying == pytest.approx(2592 * 100 / 1000 * 10)
    assert cost.reading == pytest.approx(1296 * (250 / 1000 * 1 + 0.5))
    assert cost.disks == pytest.approx(86.4 * 3 / 0.5 * 2)
    assert cost.untiered_disks == pytest.approx(864 * 3 / 0.5 * 2)
    assert cost.tiered == pytest.approx(cost.stored + cost.copying + cost.reading + cost.disks)


def test_what_was_counted_at_the_store_is_priced_in_the_report(
    tmp_path: Path, prices: Path
) -> None:
    folder = Folder(tmp_path / "results")
    folder.tiered_runs(
        "remote_tier",
        "10 ms",
        "tierlog",
        copy_write_requests_per_gb=[90, 100, 110],
        copy_to_store_ratio=[1.0, 1.0, 1.0],
        fetch_read_requests_per_gb=[250, 250, 250],
        fetch_from_store_ratio=[1.0, 1.0, 1.0],
    )
    write_report(folder.path, prices)
    page = (folder.path / "report.html").read_text("utf-8")
    for amount in ("864.00", "2,592.00", "972.00", "1,036.80", "5,464.80", "10,368.00", "0.53"):
        assert amount in page
    assert "A month, in coins" in page
    assert "Round numbers" in (folder.path / "report.md").read_text("utf-8")


def test_without_figures_of_the_store_it_says_so(tmp_path: Path, prices: Path) -> None:
    folder = Folder(tmp_path / "results")
    folder.runs("load", "small", "tierlog", mb_per_s=[1])
    cells = measured_cells(read_results(folder.path).figures)
    report = cost_report(cells, read_price_list(prices))
    assert report.tables == ()
    assert report.notes == ("There are no figures of remote_tier, so there is nothing to price.",)


def test_the_example_can_be_read_and_says_that_it_is_one() -> None:
    assert "invented" in read_price_list(EXAMPLE).name
    assert "EVERY NUMBER HERE IS INVENTED" in EXAMPLE.read_text()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("read_gb = 0.5", "", r"\[prices\] of .* lacks 'read_gb'\."),
        ("read_gb", "read_pb", r"\[prices\] of .* 'read_gb'\."),
        ("read_gb = 0.5", "read_gb = 0.5\nx = 1", r"\[prices\] of .* has an unknown key 'x'\."),
        ("read_gb = 0.5", "read_gb = true", r"read_gb of .* is not a number\."),
        ("read_gb = 0.5", "read_gb = -1", r"read_gb of .* is -1\."),
        ("read_gb = 0.5", "read_gb = inf", r"read_gb of .* is inf\."),
        ("[workload]", "[workloads]", r"unknown key 'workloads'\."),
        ('currency = "coins"', "", r"does not say its currency\."),
        ("[prices]", "[prices", r"is not TOML: .*\."),
    ],
)
def test_a_file_that_is_no_price_list_is_one_sentence(
    prices: Path, old: str, new: str, sentence: str
) -> None:
    prices.write_text(ROUND.replace(old, new))
    with pytest.raises(PriceListError, match=sentence):
        read_price_list(prices)


def test_no_file_is_one_sentence_too(tmp_path: Path) -> None:
    with pytest.raises(PriceListError, match=r"cannot be read: No such file or directory\.$"):
        read_price_list(tmp_path / "none.toml")
