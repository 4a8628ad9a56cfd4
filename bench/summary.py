"""The medians of a results folder as plain text, for the terminal.

It shows only the decisive figures; the report has all.
"""

from collections.abc import Iterable, Sequence

from .figures import Figure, MetricKey, median_of

_DECISIVE = (
    "start_s",
    "start_cpu_s",
    "mb_per_s",
    "records_per_s",
    "requests_per_s",
    "broker_cpu_s_per_gb",
    "requests_per_broker_cpu_s",
    "p50_ms",
    "p99_ms",
    "seconds",
    "resident_mib",
    "model_ratio",
)
_ROWS_MAX = 16
"""A scenario with more rows shows only its decisive ones."""


def summary(figures: Iterable[Figure]) -> str:
    """One table per scenario, with a row per case and metric and a column per target."""
    medians = median_of(figures)
    names = list(dict.fromkeys(key.scenario for key in medians))
    return "\n\n".join(_of_scenario(name, medians) for name in names)


def _of_scenario(scenario: str, medians: dict[MetricKey, float]) -> str:
    keys = [key for key in medians if key.scenario == scenario]
    targets = list(dict.fromkeys(key.target for key in keys))
    rows = list(dict.fromkeys((key.case, key.tiered, key.metric) for key in keys))
    if len(rows) > _ROWS_MAX:
        rows = [row for row in rows if row[2].endswith(_DECISIVE)] or rows
    compared = len(targets) > 1
    header = [scenario, "metric", *targets]
    if compared:
        header += [f"{targets[0]} ÷ {other}" for other in targets[1:]]
    lines = [header]
    for case, tiered, metric in rows:
        values = [medians.get(MetricKey(scenario, case, t, tiered, metric)) for t in targets]
        cells = ["–" if value is None else number(value) for value in values]
        if compared:
            cells += [_ratio(values[0], other) for other in values[1:]]
        lines.append([f"{case}, tiered" if tiered else case, metric, *cells])
    return _table(lines)


def number(value: float) -> str:
    """A number with three significant digits, and all digits of its integer part."""
    magnitude = abs(value)
    if magnitude >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if magnitude >= 10 else f"{value:.3g}"


def _ratio(ours: float | None, theirs: float | None) -> str:
    return f"{ours / theirs:.3g}" if ours is not None and theirs else "–"


def _table(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
