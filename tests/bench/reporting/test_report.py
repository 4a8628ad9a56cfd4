"""A report says what was measured: medians right, failures plain, plots with every series.

The folders are made by hand; what must come out of them is written down beside what goes in.
"""

import base64
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tierlog.bench.figures import ResultsError, RunKey, read_results
from tierlog.bench.reporting.metric import Better, in_figures, metric_of, ratio_text
from tierlog.bench.reporting.report import build_report, write_report
from tierlog.bench.reporting.spread import by_scenario, measured_cells
from tierlog.bench.reporting.tables import scenario_tables

from .handmade_results import Folder

EVIL = "<script>alert(1)</script> | `x` $y$"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "results")


class Page(HTMLParser):
    """What a browser would see of a page: its tags, its text by table row, its images."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.rows: list[list[str]] = []
        self.images: dict[str, str] = {}
        self.links: list[str] = []
        self._in_cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        attributes = dict(attrs)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._in_cell = True
        if tag == "img":
            self.images[attributes["alt"] or ""] = attributes["src"] or ""
        if tag in ("link", "script", "iframe", "object"):
            self.links.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[-1][-1] += f" {data.strip()}"

    def row(self, *beginning: str) -> list[str]:
        """The cells behind those that a row begins with."""
        cells = [[cell.strip() for cell in row] for row in self.rows]
        (found,) = [row for row in cells if row[: len(beginning)] == list(beginning)]
        return found[len(beginning) :]


def page_of(folder: Folder) -> Page:
    return Page(write_report(folder.path).read_text("utf-8"))


def series_of(svg: Path) -> set[str]:
    """The ids that a plot gives to what it draws."""
    root = ElementTree.fromstring(svg.read_text("utf-8"))
    found = {element.get("id", "") for element in root.iter()}
    return {each for each in found if re.match(r"(bar|dot|profile|line|ratio)-", each)}


def test_a_median_stands_with_its_lowest_and_highest_run_and_the_ratios(folder: Folder) -> None:
    folder.runs("load", "small", "tierlog", mb_per_s=[210, 200, 250])
    folder.runs("load", "small", "kafka", mb_per_s=[100, 90, 160])
    folder.tiered_runs("load", "small", "tierlog", mb_per_s=[190, 190, 190])
    row = page_of(folder).row("small", "throughput, MB/s")
    assert row == ["210 200 to 250", "190", "100 90.0 to 160", "2.10", "0.90"]


def test_what_a_failed_run_measured_counts_nowhere_and_the_failure_is_reported(
    folder: Folder,
) -> None:
    folder.runs("load", "small", "tierlog", mb_per_s=[200, 9_999, 220])
    folder.failure(RunKey("load", "small", "tierlog", False, 2), "The broker died.")
    page = page_of(folder)
    assert page.row("small", "throughput, MB/s") == ["210 200 to 220"]
    assert page.row("load", "small") == ["tierlog", "no", "2", "The broker died."]
    assert "9,999" not in write_report(folder.path).read_text("utf-8")


def test_a_case_of_which_every_run_failed_has_no_figure_but_its_reason(folder: Folder) -> None:
    folder.runs("load", "small", "tierlog", mb_per_s=[200])
    folder.failure(RunKey("load", "large", "tierlog", False, 1), "A record was lost.")
    page = page_of(folder)
    assert page.row("load", "large") == ["tierlog", "no", "1", "A record was lost."]
    assert not [row for row in page.rows if row and row[0].strip() == "large"]


def test_a_report_of_nothing_but_failures_can_be_written(folder: Folder) -> None:
    folder.failure(RunKey("load", "small", "tierlog", False, 0), "It did not start.")
    assert page_of(folder).row("load", "small") == [
        "tierlog",
        "no",
        "warming up",
        "It did not start.",
    ]


def test_machine_versions_and_what_was_refused_are_at_the_top(folder: Folder) -> None:
    folder.runs("load", "small", "tierlog", mb_per_s=[1])
    page = page_of(folder)
    assert page.row("machine: cores") == ["2"]
    assert page.row("versions") == ["tierlog 0.1.0, kafka 4.3.1"]
    assert page.row("plans: load: repeats") == ["3"]
    text = (folder.path / "report.html").read_text("utf-8")
    assert "tansu, load (2 cases): No tier." in text
    assert text.index("machine: cores") < text.index("throughput, MB/s")


def test_names_that_are_markup_stay_text_in_both_forms(folder: Folder) -> None:
    folder.runs("load", EVIL, "tierlog", mb_per_s=[1, 2], p99_ms=[3, 4])
    folder.runs("load", EVIL, EVIL, mb_per_s=[1, 2], p99_ms=[3, 4])
    folder.failure(RunKey("load", EVIL, EVIL, False, 3), EVIL)
    page = page_of(folder)
    assert "script" not in page.tags
    assert page.links == []
    markdown = (folder.path / "report.md").read_text("utf-8")
    assert "<script" not in markdown.replace(r"\<script", "")
    widths = {row.count(" | ") for row in markdown.splitlines() if "throughput, MB/s" in row}
    assert widths, "the row is there"


@pytest.mark.parametrize("cases", [2, 5])
def test_the_summary_holds_the_headlines_and_needs_no_other_file(
    folder: Folder, cases: int
) -> None:
    for case in map(str, range(cases)):
        folder.runs("load", case, "tierlog", mb_per_s=[123], p99_ms=[7], odd_thing=[4567])
        folder.runs("odd", case, "tierlog", odd_thing=[4567])
    folder.failure(RunKey("load", "1", "tierlog", False, 3), "the broker died")
    write_report(folder.path)
    report = (folder.path / "report.md").read_text("utf-8")
    summary = (folder.path / "summary.md").read_text("utf-8")
    for fragment in ("| 123 ", "the broker died", "## load", "machine: cores"):
        assert fragment in summary
        assert fragment in report
    for left_out in ("4,567", "](plots/", "## odd"):
        assert left_out not in summary
        assert left_out in report


def test_the_page_is_one_file_and_its_images_are_the_plots(folder: Folder) -> None:
    folder.runs("load", "small", "tierlog", mb_per_s=[1, 2])
    folder.runs("load", "large", "tierlog", mb_per_s=[3, 4])
    page = page_of(folder)
    assert len(page.images) == 1
    plots = {path.read_text("utf-8") for path in (folder.path / "plots").glob("*.svg")}
    embedded = {
        base64.b64decode(source.removeprefix("data:image/svg+xml;base64,")).decode()
        for source in page.images.values()
    }
    assert embedded == plots
    assert all("higher is better" in alt.lower() for alt in page.images)


@pytest.mark.parametrize(("cases", "kind"), [(2, "bar"), (30, "dot")])
def test_a_plot_holds_every_series(folder: Folder, cases: int, kind: str) -> None:
    for case in map(str, range(cases)):
        for target in ("tierlog", "kafka"):
            folder.runs("load", case, target, mb_per_s=[100, 110])
            folder.tiered_runs("load", case, target, mb_per_s=[90, 95])
    write_report(folder.path)
    drawn = series_of(folder.path / "plots" / "load-mb_per_s.svg")
    wanted = {
        f"{kind}-{who}-{how}" for who in ("tierlog", "kafka") for how in ("tiered", "untiered")
    }
    assert drawn == wanted
    assert series_of(folder.path / "plots" / "overview-tierlog-to-kafka.svg") == {
        "ratio-load_throughput_MB_s"
    }


def test_latency_over_time_is_the_median_of_each_second_of_the_runs(folder: Folder) -> None:
    for run, ms in ((1, 10.0), (2, 20.0), (3, 90.0)):
        key = RunKey("steady", "acks=all", "tierlog", True, run)
        folder.latencies(key, "produce", [ms, ms + 1, ms + 2])
    folder.latencies(RunKey("steady", "acks=all", "kafka", True, 1), "produce", [50.0, 50.0])
    report = build_report(read_results(folder.path))
    (over_time,) = [plot for plot in report.plots if plot.name.endswith("over_time")]
    write_report(folder.path)
    drawn = series_of(folder.path / "plots" / f"{over_time.name}.svg")
    assert drawn == {
        f"line-{percentile}-{who}-tiered"
        for percentile in ("p50", "p99", "slowest")
        for who in ("tierlog", "kafka")
    }
    assert "profile-tierlog-tiered" in series_of(
        folder.path / "plots" / "steady-acks_all-produce-profile.svg"
    )


def test_the_kips_own_figures_stand_beside_ours(folder: Folder) -> None:
    folder.runs("kip405_normal", "acks=all", "tierlog", produce_p99_ms=[4, 4], tail_p99_ms=[9, 9])
    folder.tiered_runs("kip405_normal", "acks=all", "tierlog", produce_p99_ms=[5, 5])
    assert page_of(folder).row("all", "p99") == [
        "25 ms",
        "21 ms",
        "1.19",
        "5.00 ms",
        "4.00 ms",
        "1.25",
    ]


def test_many_cases_have_a_table_for_each_metric(folder: Folder) -> None:
    for case in "abcd":
        folder.runs("load", case, "tierlog", mb_per_s=[1], odd_thing=[7])
    (scenario,) = by_scenario(measured_cells(read_results(folder.path).figures))
    first, second = scenario_tables(scenario)
    assert first.caption == "throughput, MB/s (higher is better)"
    assert [row[0].text for row in first.rows] == list("abcd")
    assert first.is_headline
    assert not second.is_headline
    assert second.caption == "odd thing"


def no_folder(folder: Folder) -> None:
    for path in sorted(folder.path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.path.rmdir()


def torn_figures(folder: Folder) -> None:
    folder.tear("figures.jsonl")


def torn_failures(folder: Folder) -> None:
    folder.tear("failures.jsonl")


def torn_machine(folder: Folder) -> None:
    (folder.path / "machine.json").write_text('{"cores": ')


def torn_histogram(folder: Folder) -> None:
    (histogram,) = (folder.path / "histograms").glob("*.hlog")
    histogram.write_text(histogram.read_text()[:-20])


def no_histogram(folder: Folder) -> None:
    (histogram,) = (folder.path / "histograms").glob("*.hlog")
    first = histogram.read_text().splitlines()[0]
    histogram.write_text(f"{first}\nnot a histogram\n")


@pytest.mark.parametrize(
    "spoil", [no_folder, torn_figures, torn_failures, torn_machine, torn_histogram, no_histogram]
)
def test_what_cannot_be_read_is_one_plain_sentence(
    folder: Folder, spoil: Callable[[Folder], None]
) -> None:
    folder.latencies(RunKey("steady", "a", "tierlog", False, 1), "produce", [1.0, 2.0])
    spoil(folder)
    with pytest.raises(ResultsError) as raised:
        write_report(folder.path)
    sentence = str(raised.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert str(folder.path) in sentence


def test_a_second_report_leaves_no_plot_of_the_first(folder: Folder) -> None:
    folder.runs("load", "small", "tierlog", mb_per_s=[1])
    (folder.path / "plots").mkdir()
    (folder.path / "plots" / "of-old.svg").write_text("<svg/>")
    write_report(folder.path)
    assert not (folder.path / "plots" / "of-old.svg").exists()


@pytest.mark.parametrize(
    ("name", "title", "better"),
    [
        ("mb_per_s", "throughput, MB/s", Better.HIGHER),
        ("copy_mb_per_s", "copy throughput, MB/s", Better.HIGHER),
        ("produce_p999_ms", "produce p99.9, ms", Better.LOWER),
        ("broker_cpu_s_per_gb", "broker CPU, CPU-s/GB", Better.LOWER),
        ("broker_cpu_s", "broker CPU, CPU-s", Better.LOWER),
        ("chunk_hit_ratio", "chunk hits, share", Better.HIGHER),
        ("disk_written_mb", "disk written, MB", Better.NEITHER),
        ("connects_per_s", "connects, 1/s", Better.HIGHER),
        ("memory_kib_per_connection", "memory of a connection, KiB", Better.LOWER),
        ("idle_cpu_s_per_minute", "idle CPU, CPU-s/min", Better.LOWER),
        ("of_no_unit", "of no unit", Better.NEITHER),
    ],
)
def test_a_metrics_name_says_its_unit_and_what_is_better(
    name: str, title: str, better: Better
) -> None:
    metric = metric_of(name)
    assert (metric.title, metric.better) == (title, better)


def test_figures_have_three_digits() -> None:
    values = (1234.5, 123.45, 12.345, 1.2345, 0.12345, 0.0012345, 0.0)
    assert [in_figures(value) for value in values] == [
        *("1,234", "123", "12.3", "1.23", "0.123", "0.00123", "0")
    ]
    assert [ratio_text(value) for value in (None, 0.0123, 0.123, 3.45, 345.0)] == [
        *("–", "0.012", "0.12", "3.45", "345")
    ]
