"""The overview: one ratio with its range for each headline figure of a scenario.

Ratios are taken between the medians of each case; the overview shows the median of these, and their
lowest and highest as the range. It answers two questions: how does tierlog compare with each other
target, and what does tiering change at each target.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .metric import headline_rank, metric_of, ratio_text
from .plots import Plot, RatioRow, plot_name, ratio_bars
from .spread import ScenarioCells, Series, ratio_of, target_order
from .tables import Table, TableCell, verdict_of


@dataclass(frozen=True, slots=True)
class Question:
    """One comparison over all scenarios."""

    title: str
    over: str
    under: str
    rows: tuple[RatioRow, ...]
    cases: tuple[int, ...]

    @property
    def name(self) -> str:
        return plot_name("overview", self.over, "to", self.under)

    def table(self) -> Table:
        """The rows as a table."""
        return Table(
            self.title,
            ("figure", f"{self.over} ÷ {self.under}", "from", "to", "cases"),
            tuple(
                (
                    TableCell(row.label),
                    TableCell(ratio_text(row.ratio), verdict=verdict_of(row.ratio, row.better)),
                    TableCell(ratio_text(row.low)),
                    TableCell(ratio_text(row.high)),
                    TableCell(str(count)),
                )
                for row, count in zip(self.rows, self.cases, strict=True)
            ),
        )


@dataclass(frozen=True, slots=True)
class Overview:
    """The questions that the figures can answer, each with its table and plot."""

    questions: tuple[Question, ...]
    plots: tuple[Plot, ...]


def overview_of(scenarios: Sequence[ScenarioCells]) -> Overview:
    """The comparisons with figures of both sides."""
    targets = sorted(
        {series.target for scenario in scenarios for series in scenario.series}, key=target_order
    )
    all_questions = [
        _question(f"tierlog against {other}", ("tierlog", other), scenarios, _against(other))
        for other in targets
        if other != "tierlog"
    ]
    all_questions += [
        _question(
            f"What tiering changes at {target}",
            (f"{target} tiered", "untiered"),
            scenarios,
            ((Series(target, True), Series(target, False)),),
        )
        for target in targets
    ]
    questions = tuple(question for question in all_questions if question.rows)
    return Overview(
        questions,
        tuple(
            ratio_bars(question.name, question.title, question.rows, question.over, question.under)
            for question in questions
        ),
    )


Pair = tuple[Series, Series]


def _against(other: str) -> tuple[Pair, ...]:
    return tuple((Series("tierlog", tiered), Series(other, tiered)) for tiered in (False, True))


def _question(
    title: str, sides: tuple[str, str], scenarios: Sequence[ScenarioCells], pairs: Sequence[Pair]
) -> Question:
    rows: list[RatioRow] = []
    counts: list[int] = []
    for scenario in scenarios:
        headlines = [name for name in scenario.metrics if headline_rank(name) is not None]
        for name in sorted(headlines, key=lambda each: headline_rank(each) or 0):
            ratios = list(_ratios(scenario, name, pairs))
            if ratios:
                metric = metric_of(name)
                rows.append(
                    RatioRow(
                        f"{scenario.name}: {metric.title}",
                        statistics.median(ratios),
                        min(ratios),
                        max(ratios),
                        metric.better,
                    )
                )
                counts.append(len(ratios))
    return Question(title, *sides, tuple(rows), tuple(counts))


def _ratios(scenario: ScenarioCells, name: str, pairs: Sequence[Pair]) -> Iterator[float]:
    for case in scenario.cases:
        for over, under in pairs:
            ratio = ratio_of(scenario.get(case, over, name), scenario.get(case, under, name))
            if ratio is not None and ratio > 0:
                yield ratio
