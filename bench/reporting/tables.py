"""The tables of a report: medians with their spread, and ratios between series.

A scenario with few cases has a table of headlines and one of other figures, with a row for each
case and metric. One with many cases has a table for each metric, with a row for each case. A cell
shows the median, and below it the lowest and the highest run if they differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .metric import Better, headline_rank, in_figures, metric_of, ratio_text
from .spread import Comparison, Measured, ScenarioCells, comparisons, ratio_of

_ONE_TABLE_CASES_MAX = 3


@dataclass(frozen=True, slots=True)
class TableCell:
    """The text of a cell, its spread, and whether it is better or worse."""

    text: str
    spread: str = ""
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the first `row_heads` cells of each row are its heads."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    row_heads: int = 1
    is_headline: bool = True


def value_cell(measured: Measured | None) -> TableCell:
    """A median and its spread, or a dash if nothing was measured."""
    if measured is None:
        return TableCell("–")
    low, high = in_figures(measured.low), in_figures(measured.high)
    return TableCell(in_figures(measured.median), f"{low} to {high}" if low != high else "")


def ratio_cell(ratio: float | None, better: Better) -> TableCell:
    """A ratio, and whether it is good for the numerator."""
    return TableCell(ratio_text(ratio), verdict=verdict_of(ratio, better))


def verdict_of(ratio: float | None, better: Better) -> str:
    """`better` or `worse` for the numerator; empty if neither applies."""
    if ratio is None or better is Better.NEITHER or f"{ratio:.2f}" == "1.00":
        return ""
    return "better" if (ratio > 1) == (better is Better.HIGHER) else "worse"


def scenario_tables(scenario: ScenarioCells) -> list[Table]:
    """All tables of a scenario, headlines first."""
    metrics = sorted(scenario.metrics, key=_headlines_first)
    if len(scenario.cases) <= _ONE_TABLE_CASES_MAX:
        headlines = [name for name in metrics if headline_rank(name) is not None]
        others = [name for name in metrics if headline_rank(name) is None]
        return [
            _one_table(scenario, names, is_headline=names is headlines)
            for names in (headlines, others)
            if names
        ]
    return [_table_of(scenario, name) for name in metrics]


def _headlines_first(name: str) -> int:
    rank = headline_rank(name)
    return 1000 if rank is None else rank


def _one_table(scenario: ScenarioCells, metrics: Sequence[str], *, is_headline: bool) -> Table:
    compared = comparisons(scenario)
    rows: list[tuple[TableCell, ...]] = []
    for case in scenario.cases:
        there = scenario.with_case(case).metrics
        rows += [
            (
                TableCell(case),
                TableCell(metric_of(name).title),
                *_cells(scenario, case, name, compared),
            )
            for name in metrics
            if name in there
        ]
    heads = ("case", "figure", *_heads(scenario, compared))
    caption = "" if is_headline else "Other figures"
    return Table(caption, heads, tuple(rows), row_heads=2, is_headline=is_headline)


def _table_of(scenario: ScenarioCells, name: str) -> Table:
    drawn = scenario.with_metric(name)
    compared = comparisons(drawn)
    metric = metric_of(name)
    direction = f" ({metric.better.value})" if metric.better.value else ""
    return Table(
        f"{metric.title}{direction}",
        ("case", *_heads(drawn, compared)),
        tuple((TableCell(case), *_cells(drawn, case, name, compared)) for case in drawn.cases),
        is_headline=headline_rank(name) is not None,
    )


def _heads(scenario: ScenarioCells, compared: Sequence[Comparison]) -> tuple[str, ...]:
    return (
        *(scenario.label(series) for series in scenario.series),
        *(comparison.label for comparison in compared),
    )


def _cells(
    scenario: ScenarioCells, case: str, name: str, compared: Sequence[Comparison]
) -> tuple[TableCell, ...]:
    better = metric_of(name).better
    return (
        *(value_cell(scenario.get(case, series, name)) for series in scenario.series),
        *(
            ratio_cell(
                ratio_of(
                    scenario.get(case, comparison.over, name),
                    scenario.get(case, comparison.under, name),
                ),
                better,
            )
            for comparison in compared
        ),
    )
