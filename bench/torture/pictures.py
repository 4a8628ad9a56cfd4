"""The plots of a torture run, as SVG that takes its ink from the page that it is in.

Each plot's values are in the page's tables, too.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from ...pipeline.plots.canvas import BLUE, DASHES, GREEN, GREY, ORANGE, PALETTE, PINK, Axes, Canvas
from .figures import percentiles
from .outcome import Outcome, Span

_WIDTH = 11.0
_POINTS_MAX = 240
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600)
_ROW = 0.19
_INKS = {
    "fill: #ffffff": "fill: none",
    "#dddddd": "var(--rule)",
    "#666666": "var(--soft)",
    "stroke: #000000": "stroke: var(--ink)",
}
"""What the canvas draws with, and what stands for it in a page of either ground."""


class Picture(NamedTuple):
    """A plot, and the sentence that describes it."""

    title: str
    says: str
    svg: str


def bucket_s(seconds: float) -> int:
    """The seconds of a bucket, so that a line has not too many points."""
    return next((step for step in _STEPS_S if seconds / step <= _POINTS_MAX), _STEPS_S[-1])


def rates(outcome: Outcome) -> dict[str, list[float]]:
    """By client, the records acknowledged a second in each bucket of the run."""
    step = bucket_s(outcome.seconds)
    buckets = math.ceil(outcome.seconds / step)
    return {
        client.name: [
            sum(client.per_second[second] for second in range(at * step, (at + 1) * step)) / step
            for at in range(buckets)
        ]
        for client in outcome.clients
    }


def pictures(outcome: Outcome) -> list[Picture]:
    """All plots that there is something to draw for."""
    drawn = [_timeline(outcome)] if outcome.faults or outcome.clients else []
    if any(tally.fired for tally in outcome.tallies.values()):
        drawn.append(_by_kind(outcome))
    return drawn


def _timeline(outcome: Outcome) -> Picture:
    kinds = [name for name, tally in outcome.tallies.items() if tally.fired] or [
        *dict.fromkeys(fault.name for fault in outcome.faults)
    ]
    nodes = list(range(1, outcome.plot.brokers + 1))
    rows = [max(1, len(outcome.clients)), len(nodes), max(1, len(kinds))]
    heights = [2.6, *(0.35 + _ROW * row for row in rows)]
    with Canvas(_WIDTH, sum(heights) + 1.2, rows=4, row_heights=heights) as canvas:
        throughput, pauses, in_sync, faults = (row[0] for row in canvas.axes)
        _draw_rates(throughput, outcome)
        _draw_rows(
            pauses,
            "unavailable",
            {client.name: client.pauses for client in outcome.clients},
            ORANGE,
        )
        _draw_rows(
            in_sync,
            "out of sync",
            {f"node {node}": spans for node, spans in _out_of_sync(outcome, nodes).items()},
            PINK,
        )
        _draw_rows(
            faults,
            "faults",
            {
                name: [
                    (fault.began_s, fault.returned_s)
                    for fault in outcome.faults
                    if fault.name == name
                ]
                for name in kinds
            },
            BLUE,
        )
        for axes in (throughput, pauses, in_sync, faults):
            axes.set_xlim(0, max(1.0, outcome.seconds))
        faults.set_xlabel("seconds since the first fault could begin")
        canvas.legend()
        svg = _inked(canvas.svg())
    says = (
        "Records acknowledged a second to each producer; below, on the same time: when a partition "
        "of a producer had no acknowledgement for more than a second, when a node was not in every "
        "ISR, and which faults were under way."
    )
    return Picture("The run over time", says, svg)


def _draw_rates(axes: Axes, outcome: Outcome) -> None:
    step = bucket_s(outcome.seconds)
    for at, (name, values) in enumerate(rates(outcome).items()):
        places = [(place + 0.5) * step for place in range(len(values))]
        axes.plot(
            places,
            values,
            label=name,
            color=PALETTE[at % len(PALETTE)] if PALETTE[at % len(PALETTE)] != "#000000" else GREY,
            linestyle=DASHES[at % len(DASHES)],
            linewidth=1.3,
        )
    axes.set_ylabel("records/s")
    axes.grid(True, axis="y")
    axes.set_title("Acknowledged")


def _draw_rows(axes: Axes, title: str, rows: dict[str, list[Span]], colour: str) -> None:
    for place, spans in enumerate(rows.values()):
        # What lasts a moment is drawn as wide as can be seen.
        bars = [(begin, max(end - begin, 0.4)) for begin, end in spans]
        axes.broken_barh(bars, (place - 0.38, 0.76), facecolors=colour)
    axes.set_yticks(list(range(len(rows))), list(rows), fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(True, axis="x")
    axes.set_axisbelow(True)
    axes.set_title(title[:1].upper() + title[1:])


def _out_of_sync(outcome: Outcome, nodes: Sequence[int]) -> dict[int, list[Span]]:
    spans: dict[int, list[Span]] = {node: [] for node in nodes}
    ends = [at for at, _ in outcome.in_sync[1:]] + [outcome.seconds]
    for (begin, in_sync), end in zip(outcome.in_sync, ends, strict=False):
        for node in nodes:
            if node not in in_sync and begin < outcome.seconds:
                spans[node].append((begin, min(end, outcome.seconds)))
    return spans


def _by_kind(outcome: Outcome) -> Picture:
    kinds = [name for name, tally in outcome.tallies.items() if tally.fired]
    with Canvas(_WIDTH, 1.1 + 0.24 * len(kinds), columns=2) as canvas:
        (unavailable, back) = canvas.axes[0]
        _draw_spread(unavailable, kinds, [outcome.unavailable_s(name) for name in kinds], ORANGE)
        _draw_spread(back, kinds, [outcome.back_in_sync_s(name) for name in kinds], GREEN)
        unavailable.set_title("A partition unavailable, as clients saw it")
        back.set_title("From the fault's end until back in every ISR")
        svg = _inked(canvas.svg())
    says = (
        "By kind of fault, in seconds: the bar is the median, the line reaches to the longest. A "
        "fault that others overlap shares their consequences."
    )
    return Picture("What each kind of fault costs", says, svg)


def _draw_spread(
    axes: Axes, names: Sequence[str], values: Sequence[Sequence[float]], colour: str
) -> None:
    spreads = [percentiles(value) for value in values]
    medians = [spread.get("p50", 0.0) for spread in spreads]
    above = [each.get("max", 0.0) - median for each, median in zip(spreads, medians, strict=True)]
    places = [float(each) for each in range(len(names))]
    axes.barh(places, medians, height=0.62, color=colour)
    axes.errorbar(
        medians,
        places,
        xerr=[[0.0] * len(above), above],
        fmt="none",
        ecolor=GREY,
        elinewidth=1.2,
        capsize=2.5,
    )
    axes.set_yticks(places, list(names), fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(True, axis="x")
    axes.set_axisbelow(True)
    axes.set_xlabel("s")


def _inked(svg: str) -> str:
    """The plot without its white ground and without a prologue, to be put into a page."""
    drawing = svg[svg.index("<svg") :]
    for colour, ink in _INKS.items():
        drawing = drawing.replace(colour, ink)
    return drawing
