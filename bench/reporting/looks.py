"""The style of series, ratios and logarithmic axes in every plot of a report.

A target has the same colour everywhere; tiered is solid, untiered is pale and hatched, or dashed
for a line.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...pipeline.plots.canvas import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW
from .spread import Series

_COLOURS = {"tierlog": BLUE, "kafka": ORANGE, "tansu": GREEN}
_OTHER_COLOURS = (PINK, SKY, YELLOW, BLACK)

GOOD, BAD, PLAIN = GREEN, "#AA4499", GREY
"""The colours of ratios: better for the numerator, worse, and neither. No target has these colours
in plots of ratios, and worse ones are also hatched.
"""


@dataclass(frozen=True, slots=True)
class Look:
    """The style of a series."""

    colour: str
    tiered: bool

    @property
    def line(self) -> str:
        return "-" if self.tiered else "--"

    def bar(self) -> dict[str, object]:
        """The style of a bar: solid, or pale and hatched."""
        if self.tiered:
            return {"color": self.colour, "edgecolor": self.colour}
        return {"facecolor": f"{self.colour}40", "edgecolor": self.colour, "hatch": "////"}


def looks(series: Sequence[Series]) -> dict[Series, Look]:
    """The style of each series; all are solid unless there are both tiered and untiered ones."""
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
    """Round numbers for a logarithmic axis: 1, 2 and 5 of each decade, finer if it is short."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = _FINE_TICKS if high / low < 3 else _TICKS if high / low < 1000 else _TICKS[:1]
    ticks = [step * 10.0**power for power in decades for step in steps]
    return [tick for tick in ticks if low <= tick <= high]
