"""The report of a results folder: report.html, report.md, and its plots as files.

It is for readers who decide about tiered storage: the machine and the failures come first, then the
overview, then every scenario with its tables and plots. The page is one self-contained file.
Everything in it from a results file is escaped; the templates escape by default, and plots are
embedded as images, which cannot run scripts.
"""

import base64
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..figures import Results, read_results
from .cost import cost_report
from .kip405_published import published_table
from .latency_series import Loads, TimeLine, time_lines
from .machine_facts import detailed_facts, main_facts, refused_of, report_title
from .markdown import markdown_report, markdown_summary
from .metric import headline_rank, percentile_of
from .overview import overview_of
from .plots import Plot, bars, latency_over_time, latency_profile
from .price_list import read_price_list
from .report_contents import Report, Section
from .scenario_words import summary_of
from .spread import ScenarioCells, Series, by_scenario, measured_cells
from .tables import scenario_tables

_PROFILES_MAX = 6
"""The most latency plots of each kind in one scenario; the tables have every figure."""


def write_report(directory: Path, prices: Path | None = None) -> Path:
    """Write both forms and the plots into the folder; returns the page's path.

    Raises ResultsError or PriceListError.
    """
    report = build_report(read_results(directory), prices)
    plots = directory / "plots"
    plots.mkdir(exist_ok=True)
    for old in (*plots.glob("*.svg"), *plots.glob("*.png")):
        old.unlink()
    for plot in report.plots:
        (plots / f"{plot.name}.svg").write_text(plot.svg, "utf-8")
    (directory / "report.md").write_text(markdown_report(report), "utf-8")
    (directory / "summary.md").write_text(markdown_summary(report), "utf-8")
    page = directory / "report.html"
    page.write_text(html_report(report), "utf-8")
    return page


def build_report(results: Results, prices: Path | None = None) -> Report:
    """Build the contents of a report."""
    price_list = None if prices is None else read_price_list(prices)
    cells = measured_cells(results.figures, results.failures)
    scenarios = by_scenario(cells)
    lines = time_lines(results.histograms, [failure.key for failure in results.failures])
    return Report(
        title=report_title(results.machine),
        facts=tuple(main_facts(results.machine)),
        details=tuple(detailed_facts(results.machine)),
        refused=tuple(refused_of(results.machine)),
        failures=results.failures,
        overview=overview_of(scenarios),
        sections=tuple(_section(scenario, lines) for scenario in scenarios),
        cost=None if price_list is None else cost_report(cells, price_list),
    )


def html_report(report: Report) -> str:
    """The report as an HTML page."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["image"] = _image
    return templates.get_template("report.html.jinja").render(report=report)


def _image(plot: Plot) -> str:
    encoded = base64.b64encode(plot.svg.encode()).decode()
    return f"data:image/svg+xml;base64,{encoded}"


def _section(scenario: ScenarioCells, lines: Mapping[Loads, Mapping[Series, TimeLine]]) -> Section:
    return Section(
        scenario.name,
        summary_of(scenario.name),
        _runs_of(scenario),
        tuple(scenario_tables(scenario)),
        tuple(_plots_of(scenario, lines)),
        published_table(scenario),
    )


def _runs_of(scenario: ScenarioCells) -> str:
    """A sentence about the number of runs behind the figures."""
    counts = sorted({len(measured.values) for measured in scenario.cells.values()})
    if counts == [1]:
        return "One run of each: no spread is known."
    between = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Medians of {between} runs; below each the lowest and the highest run."


def _plots_of(
    scenario: ScenarioCells, lines: Mapping[Loads, Mapping[Series, TimeLine]]
) -> list[Plot]:
    plots: list[Plot] = []
    for load in [load for load in lines if load.scenario == scenario.name][:_PROFILES_MAX]:
        series = {each: line for each, line in lines[load].items() if len(line.seconds) > 1}
        if series:
            plots.append(latency_over_time(load, series))
    profiles = dict.fromkeys(
        (case, percentile[0])
        for case in scenario.cases
        for name in scenario.with_case(case).metrics
        if (percentile := percentile_of(name)) is not None
    )
    plots += [latency_profile(scenario, *profile) for profile in list(profiles)[:_PROFILES_MAX]]
    for name in sorted(scenario.metrics, key=lambda each: headline_rank(each) or 0):
        if headline_rank(name) is not None and percentile_of(name) is None:
            plots += bars(scenario, name)
    return plots
