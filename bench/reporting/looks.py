"""How series, ratios and logarithmic axes look, in every plot of a report.

A target has the same colour everywhere; what is tiered is solid, what is not is pale and hatched,
or dashed where it is a line.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...clients.plots.canvas import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW
from .spread import Series

_COLOURS = {"tierlog": BLUE, "kafka": ORANGE, "tansu": GREEN}
_OTHER_COLOURS = (PINK, SKY, YELLOW, BLACK)

GOOD, BAD, PLAIN = GREEN, "#AA4499", GREY
"""Of ratios: better for the one above the line, worse, and neither. No target has these colours
where ratios are drawn, and what is worse is hatched as well.
"""


@dataclass(frozen=True, slots=True)
class Look:
    """How a series is drawn."""

    colour: str
    tiered: bool

    @property
    def line(self) -> str:
        return "-" if self.tiered else "--"

    def bar(self) -> dict[str, object]:
        """Solid, or pale and hatched."""
        if self.tiered:
            return {"color": self.colour, "edgecolor": self.colour}
        return {"facecolor": f"{self.colour}40", "edgecolor": self.colour, "hatch": "////"}


def looks(series: Sequence[Series]) -> dict[Series, Look]:
    """Of each series; solid where tiered and untiered need not be told apart."""
    both = len({each.tiered for each in series}) == 2
    others = [each.target for each in series if each.target not in _COLOURS]
    palette = dict(zip(dict.fromkeys(others), _OTHER_COLOURS * len(others), strict=False))
    return {
        each: Look(_COLOURS.get(each.target) or palette[each.target], each.tiered if both else True)
        for each in series
    }


_TICKS = (1.0, 2.0, 5.0)
_FINE_TICKS = (1.0, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers of a logarithmic axis: 1, 2 and 5 of each decade, finer where it is short."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = _FINE_TICKS if high / low < 3 else _TICKS if high / low < 1000 else _TICKS[:1]
    ticks = [step * 10.0**power for power in decades for step in steps]
    return [each for each in ticks if low <= each <= high]
