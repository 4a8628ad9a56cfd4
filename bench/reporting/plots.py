"""The plots of a report: bars, latency profiles, latency over time, ratios.

Each plot's values are also in the report's tables, so that a reader who cannot see it misses
nothing. A sentence next to the plot describes it, and is also its alternative text. Whiskers and
bands always show the lowest and the highest run.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...pipeline.plots.canvas import Axes, Canvas
from .latency_series import PERCENTILES_OVER_TIME, Loads, TimeLine
from .looks import BAD, GOOD, PLAIN, Look, log_ticks, looks
from .metric import PERCENTILES, Better, Metric, in_figures, metric_of, ratio_text
from .spread import Measured, ScenarioCells, Series

_WIDTH = 9.0
_BARS_MAX = 32
"""With more bars than this, each case is drawn as one line of dots instead."""
_CASES_A_PLOT = 40


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot, its file name, title and description."""

    name: str
    title: str
    says: str
    svg: str


def plot_name(*words: str) -> str:
    """A safe file name made of arbitrary words."""
    return "-".join(re.sub(r"[^A-Za-z0-9]+", "_", word).strip("_") for word in words if word)


def _finished(canvas: Canvas, name: str, title: str, says: str) -> Plot:
    return Plot(name, title, says, canvas.svg())


def _gid(what: str, series: Series) -> str:
    return f"{what}-{plot_name(series.target)}-{'tiered' if series.tiered else 'untiered'}"


# -- Bars ---------------------------------------------------------------------------------------


def bars(scenario: ScenarioCells, name: str) -> list[Plot]:
    """Plots of one metric by case: bars, or dots if there are many; several plots if too many."""
    metric = metric_of(name)
    drawn = scenario.with_metric(name)
    if len(drawn.cells) < 2:
        # A plot of a single bar would add nothing to the figure in the table.
        return []
    pages = [
        drawn.cases[start : start + _CASES_A_PLOT]
        for start in range(0, len(drawn.cases), _CASES_A_PLOT)
    ]
    plots: list[Plot] = []
    for number, cases in enumerate(pages, 1):
        part = f" ({number} of {len(pages)})" if len(pages) > 1 else ""
        title = f"{scenario.name}: {metric.label}{part}"
        direction = f" {metric.better.value.capitalize()}." if metric.better.value else ""
        says = (
            f"{metric.title[:1].upper()}{metric.title[1:]} of each case; whiskers are the lowest "
            f"and the highest run.{direction}"
        )
        file_name = plot_name(scenario.name, name, str(number) if part else "")
        draw = _bars if len(cases) * len(drawn.series) <= _BARS_MAX else _dots
        height = 1.35 + len(cases) * (0.24 * len(drawn.series) + 0.16 if draw is _bars else 0.26)
        with Canvas(_WIDTH, height) as canvas:
            axes = canvas.axes[0][0]
            draw(axes, drawn, cases, name)
            axes.set_yticks(list(range(len(cases))), cases)
            axes.invert_yaxis()
            axes.set_xlabel(_axis_label(metric))
            canvas.title(title)
            canvas.legend()
            plots.append(_finished(canvas, file_name, title, says))
    return plots


def _axis_label(metric: Metric) -> str:
    return f"{metric.title}  ({metric.better.value})" if metric.better.value else metric.title


def _whiskers(measured: Measured) -> list[list[float]]:
    return [[measured.median - measured.low], [measured.high - measured.median]]


def _bars(axes: Axes, drawn: ScenarioCells, cases: Sequence[str], name: str) -> None:
    present = [
        [series for series in drawn.series if drawn.get(case, series, name)] for case in cases
    ]
    thickness = 0.8 / max(len(each) for each in present)
    widest = max(measured.high for measured in drawn.cells.values())
    for series, look in looks(drawn.series).items():
        there: list[tuple[float, Measured]] = []
        for row, case in enumerate(cases):
            measured = drawn.get(case, series, name)
            if measured is not None:
                # The bars that exist are centred on the case's label.
                shift = present[row].index(series) - (len(present[row]) - 1) / 2
                there.append((row + shift * thickness, measured))
        axes.barh(
            [place for place, _ in there],
            [measured.median for _, measured in there],
            height=thickness * 0.92,
            label=drawn.label(series),
            gid=_gid("bar", series),
            **look.bar(),
        )
        for place, measured in there:
            _whisker(axes, measured, place)
            axes.text(
                measured.high + widest * 0.008,
                place,
                in_figures(measured.median),
                va="center",
                fontsize=8,
                color="#333333",
            )
    axes.set_xlim(0, widest * 1.1 or 1)
    axes.set_axisbelow(True)
    axes.grid(True, axis="x")
    axes.tick_params(axis="y", length=0)


def _whisker(axes: Axes, measured: Measured, place: float) -> None:
    if measured.high > measured.low:
        axes.errorbar(
            [measured.median],
            [place],
            xerr=_whiskers(measured),
            fmt="none",
            ecolor="#222222",
            elinewidth=1,
            capsize=2,
        )


def _dots(axes: Axes, drawn: ScenarioCells, cases: Sequence[str], name: str) -> None:
    for series, look in looks(drawn.series).items():
        shown = [(row, drawn.get(case, series, name)) for row, case in enumerate(cases)]
        there = [(row, measured) for row, measured in shown if measured is not None]
        for row, measured in there:
            axes.plot([measured.low, measured.high], [row, row], color=look.colour, linewidth=1.2)
        axes.plot(
            [measured.median for _, measured in there],
            [float(row) for row, _ in there],
            label=drawn.label(series),
            gid=_gid("dot", series),
            **_marker(look),
        )
    values = [measured for measured in drawn.cells.values() if measured.low > 0]
    if values and max(v.high for v in values) > 30 * min(v.low for v in values):
        axes.set_xscale("log")
    else:
        axes.set_xlim(0, max((v.high for v in values), default=1) * 1.05)
    axes.set_axisbelow(True)
    axes.grid(True)
    axes.set_ylim(-0.6, len(cases) - 0.4)


def _marker(look: Look) -> dict[str, object]:
    return {
        "linestyle": "none",
        "marker": "o" if look.tiered else "D",
        "markersize": 5.5 if look.tiered else 4.8,
        "markeredgecolor": look.colour,
        "markerfacecolor": look.colour if look.tiered else "white",
    }


# -- Latency ------------------------------------------------------------------------------------

_PERCENTILE_NAMES = {"p50_ms": "p50", "p95_ms": "p95", "p99_ms": "p99", "p999_ms": "p99.9"}


def latency_profile(scenario: ScenarioCells, case: str, of: str) -> Plot:
    """A plot of latency by percentile: one line per series, on a logarithmic scale."""
    title = f"{scenario.name}, {case}: {of.replace('_', ' ') + ' ' if of else ''}latency"
    says = "Latency at each percentile; bands are the lowest and the highest run. Lower is better."
    names = [f"{of}_{percentile}" if of else percentile for percentile in PERCENTILES]
    drawn = scenario.with_case(case)
    with Canvas(_WIDTH * 0.62, 3.5) as canvas:
        axes = canvas.axes[0][0]
        shown: list[float] = []
        for series, look in looks(drawn.series).items():
            column = [drawn.get(case, series, name) for name in names]
            there = [(x, value) for x, value in enumerate(column) if value is not None]
            if not there:
                continue
            places = [float(x) for x, _ in there]
            shown += [bound for _, value in there for bound in (value.low, value.high)]
            axes.fill_between(
                places,
                [value.low for _, value in there],
                [value.high for _, value in there],
                color=look.colour,
                alpha=0.12,
                linewidth=0,
            )
            axes.plot(
                places,
                [value.median for _, value in there],
                color=look.colour,
                linestyle=look.line,
                marker="o" if look.tiered else "D",
                markersize=4.5,
                label=drawn.label(series),
                gid=_gid("profile", series),
            )
        _log_y(axes, shown)
        axes.set_xticks(list(range(len(names))), list(_PERCENTILE_NAMES.values()))
        axes.set_xlabel("percentile of records")
        axes.set_ylabel("milliseconds")
        canvas.legend()
        canvas.title(title)
        return _finished(canvas, plot_name(scenario.name, case, of, "profile"), title, says)


def _log_y(axes: Axes, values: Sequence[float]) -> None:
    """Set a logarithmic axis with readable numbers."""
    above = [value for value in values if value > 0] or [1.0]
    low, high = min(above) / 1.2, max(above) * 1.2
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    ticks = log_ticks(low, high)
    axes.set_yticks([], [], minor=True)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.grid(True)


def latency_over_time(load: Loads, lines: Mapping[Series, TimeLine]) -> Plot:
    """A plot of every second's percentiles: one set of axes per percentile, one line per series."""
    scenario, case, of = load
    title = f"{scenario}, {case}: {of.replace('_', ' ') + ' ' if of else ''}latency over time"
    says = (
        "Latency of each second of the load: the median over the runs; bands are the lowest and "
        "the highest run. Lower is better."
    )
    series = sorted(lines, key=list(lines).index)
    both = len({each.tiered for each in series}) == 2
    with Canvas(
        _WIDTH, 2.0 * len(PERCENTILES_OVER_TIME) + 0.4, len(PERCENTILES_OVER_TIME)
    ) as canvas:
        for row, (percentile, label) in enumerate(PERCENTILES_OVER_TIME.items()):
            axes = canvas.axes[row][0]
            for each, look in looks(series).items():
                line = lines[each]
                axes.fill_between(
                    line.seconds,
                    line.lows[percentile],
                    line.highs[percentile],
                    color=look.colour,
                    alpha=0.12,
                    linewidth=0,
                )
                kind = (" tiered" if each.tiered else " untiered") if both else ""
                axes.plot(
                    line.seconds,
                    line.medians[percentile],
                    color=look.colour,
                    linestyle=look.line,
                    linewidth=1.4,
                    label=f"{each.target}{kind}",
                    gid=_gid(f"line-{plot_name(label)}", each),
                )
            axes.set_ylabel(f"{label}, ms")
            _log_y(axes, _line_values(lines, percentile))
        canvas.axes[-1][0].set_xlabel("seconds since the load began")
        canvas.title(title)
        canvas.legend()
        return _finished(canvas, plot_name(scenario, case, of, "over_time"), title, says)


def _line_values(lines: Mapping[Series, TimeLine], percentile: float) -> list[float]:
    """All values that an axis must include."""
    return [
        value
        for line in lines.values()
        for bound in (line.lows, line.highs)
        for value in bound[percentile]
    ]


# -- Ratios -------------------------------------------------------------------------------------


class RatioRow(NamedTuple):
    """A ratio of medians, and its range over several cases."""

    label: str
    ratio: float
    low: float
    high: float
    better: Better


def ratio_bars(name: str, title: str, rows: Sequence[RatioRow], over: str, under: str) -> Plot:
    """A plot of bars from 1 on a logarithmic scale; the colour shows which side is better."""
    says = (
        f"{over} divided by {under}: a bar begins at 1, where they are equal. Green: better for "
        f"{over}; purple and hatched: worse; grey: neither. Whiskers: the lowest and the highest "
        "case."
    )
    low = min(0.8, *(row.low / 1.15 for row in rows))
    high = max(1.25, *(row.high * 1.15 for row in rows))
    with Canvas(_WIDTH, 1.0 + 0.3 * len(rows)) as canvas:
        axes = canvas.axes[0][0]
        axes.set_xscale("log")
        for place, row in enumerate(rows):
            axes.barh(
                [float(place)],
                [row.ratio - 1],
                left=1,
                height=0.66,
                gid=f"ratio-{plot_name(row.label)}",
                **_verdict_look(row),
            )
            if row.high > row.low:
                axes.plot([row.low, row.high], [place, place], color="#222222", linewidth=1)
            right = max(row.high, 1) * (high / low) ** 0.008
            axes.text(right, place, f"{ratio_text(row.ratio)}×", va="center", fontsize=8.5)
        axes.set_xlim(low, high * (high / low) ** 0.07)
        axes.axvline(1, color="#222222", linewidth=1)
        axes.set_yticks(list(range(len(rows))), [row.label for row in rows])
        ticks = log_ticks(low, high)
        axes.set_xticks([], [], minor=True)
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.invert_yaxis()
        axes.set_axisbelow(True)
        axes.grid(True, axis="x")
        axes.set_xlabel(f"{over} ÷ {under}")
        canvas.title(title)
        return _finished(canvas, name, title, says)


def _verdict_look(row: RatioRow) -> dict[str, object]:
    if row.better is Better.NEITHER or row.ratio == 1:
        return {"color": PLAIN}
    if (row.ratio > 1) == (row.better is Better.HIGHER):
        return {"color": GOOD}
    return {"facecolor": f"{BAD}90", "edgecolor": BAD, "hatch": "////"}
