"""Combines the figures of several runs: the median, the lowest and the highest.

A failed run does not count, whatever it had measured before it failed: the runner writes none of
its figures, and any that exist are left out here.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..figures import Failure, Figure, MetricKey, values_of


class Series(NamedTuple):
    """A target, tiered or not: a column of a table, a colour of a plot."""

    target: str
    tiered: bool


@dataclass(frozen=True, slots=True)
class Measured:
    """The values of a cell, one per run."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)


Cells = Mapping[MetricKey, Measured]


def measured_cells(figures: Iterable[Figure], failures: Iterable[Failure] = ()) -> Cells:
    """Every cell with the values of successful runs, in order of appearance."""
    failed = {failure.key for failure in failures}
    counted = [figure for figure in figures if figure.key not in failed]
    return {key: Measured(tuple(values)) for key, values in values_of(counted).items()}


def ratio_of(over: Measured | None, under: Measured | None) -> float | None:
    """The ratio of two medians; None if one is missing or the second is zero."""
    if over is None or under is None or not under.median:
        return None
    return over.median / under.median


_KNOWN_TARGETS = ("tierlog", "kafka", "tansu")


def target_order(target: str) -> tuple[int, str]:
    """The sort key of targets: tierlog, other targets that the harness starts, the rest."""
    rank = _KNOWN_TARGETS.index(target) if target in _KNOWN_TARGETS else len(_KNOWN_TARGETS)
    return rank, target


def in_order(series: Iterable[Series]) -> list[Series]:
    """The series without duplicates, by target, untiered first."""
    return sorted(set(series), key=lambda each: (target_order(each.target), each.tiered))


@dataclass(frozen=True, slots=True)
class ScenarioCells:
    """The cells of one scenario, for its tables and plots."""

    name: str
    cells: Cells

    @property
    def cases(self) -> list[str]:
        return list(dict.fromkeys(cell.case for cell in self.cells))

    @property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys(cell.metric for cell in self.cells))

    @property
    def series(self) -> list[Series]:
        return in_order(Series(cell.target, cell.tiered) for cell in self.cells)

    def get(self, case: str, series: Series, metric: str) -> Measured | None:
        return self.cells.get(MetricKey(self.name, case, series.target, series.tiered, metric))

    def with_metric(self, metric: str) -> "ScenarioCells":
        return self._where(lambda cell: cell.metric == metric)

    def with_case(self, case: str) -> "ScenarioCells":
        return self._where(lambda cell: cell.case == case)

    def _where(self, matches: Callable[[MetricKey], bool]) -> "ScenarioCells":
        return ScenarioCells(self.name, {c: m for c, m in self.cells.items() if matches(c)})

    def label(self, series: Series) -> str:
        """The series' name, with tiered or untiered only if the scenario has both."""
        if len({each.tiered for each in self.series}) == 1:
            return series.target
        return f"{series.target} {'tiered' if series.tiered else 'untiered'}"


def by_scenario(cells: Cells) -> list[ScenarioCells]:
    """The cells of each scenario, in order of appearance."""
    names = dict.fromkeys(cell.scenario for cell in cells)
    return [
        ScenarioCells(name, {cell: m for cell, m in cells.items() if cell.scenario == name})
        for name in names
    ]


class Comparison(NamedTuple):
    """Two series to divide, the first by the second."""

    label: str
    over: Series
    under: Series


def comparisons(scenario: ScenarioCells) -> list[Comparison]:
    """tierlog ÷ each other target, and each target's tiered ÷ untiered."""
    comparisons: list[Comparison] = []
    series = scenario.series
    both = len({each.tiered for each in series}) == 2
    for other in series:
        ours = Series("tierlog", other.tiered)
        if other.target != "tierlog" and ours in series:
            kind = (" tiered" if other.tiered else " untiered") if both else ""
            comparisons.append(Comparison(f"tierlog ÷ {other.target}{kind}", ours, other))
    for under in series:
        over = Series(under.target, True)
        if not under.tiered and over in series:
            comparisons.append(Comparison(f"{under.target} tiered ÷ untiered", over, under))
    return comparisons
