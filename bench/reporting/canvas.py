"""The one door to matplotlib: figures drawn without a window, written as SVG.

Text stays text, so that a plot can be searched and read at any size; nothing in it is taken for
mathematics, and matplotlib escapes what XML must not hold. The same data gives the same bytes.

Colours are those of Okabe and Ito, which people with any kind of colour vision tell apart. A
target has the same colour in every plot; what is tiered is solid, what is not is pale and hatched,
or dashed where it is a line.
"""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, Self, cast

from .spread import Series

Numbers = Sequence[float]


class Axes(Protocol):
    """What is used of matplotlib's Axes, whose own annotations are too loose to check."""

    def barh(self, y: Numbers, width: Numbers, **style: object) -> object: ...

    def plot(self, x: Numbers, y: Numbers, **style: object) -> object: ...

    def errorbar(self, x: Numbers, y: Numbers, **style: object) -> object: ...

    def fill_between(self, x: Numbers, low: Numbers, high: Numbers, **style: object) -> object: ...

    def text(self, x: float, y: float, text: str, **style: object) -> object: ...

    def axvline(self, x: float, **style: object) -> object: ...

    def axhline(self, y: float, **style: object) -> object: ...

    def grid(self, visible: bool, **style: object) -> object: ...

    def get_legend_handles_labels(self) -> tuple[list[object], list[str]]: ...

    def invert_yaxis(self) -> object: ...

    def margins(self, x: float, y: float) -> object: ...

    def set_axisbelow(self, below: bool) -> object: ...

    def set_title(self, label: str, **style: object) -> object: ...

    def set_xlabel(self, label: str) -> object: ...

    def set_ylabel(self, label: str) -> object: ...

    def set_xlim(self, low: float, high: float) -> object: ...

    def set_ylim(self, low: float, high: float) -> object: ...

    def set_xscale(self, kind: str) -> object: ...

    def set_yscale(self, kind: str) -> object: ...

    def set_xticks(self, ticks: Numbers, labels: Sequence[str], **style: object) -> object: ...

    def set_yticks(self, ticks: Numbers, labels: Sequence[str], **style: object) -> object: ...

    def tick_params(self, **style: object) -> object: ...


class _Figure(Protocol):
    def subplots(self, rows: int, columns: int, **style: object) -> object: ...

    def suptitle(self, title: str, **style: object) -> object: ...

    def legend(self, handles: list[object], labels: list[str], **style: object) -> object: ...

    def savefig(self, file: io.BytesIO, **style: object) -> None: ...


_STYLE: Mapping[str, object] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tierlog-bench",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.formatter.use_mathtext": False,
    "axes.formatter.min_exponent": 4,
    "grid.color": "#dddddd",
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
}

_COLOURS = {"tierlog": "#0072B2", "kafka": "#D55E00", "tansu": "#009E73"}
_OTHER_COLOURS = ("#CC79A7", "#56B4E9", "#E69F00", "#000000")

GOOD, BAD, PLAIN = "#009E73", "#AA4499", "#777777"
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
    found = [step * 10.0**power for power in decades for step in steps]
    return [each for each in found if low <= each <= high]


class Canvas:
    """One drawing of some rows and columns of axes, drawn inside `with`. Sizes are in inches."""

    def __init__(self, width: float, height: float, rows: int = 1, columns: int = 1) -> None:
        self._size = width, height
        self._shape = rows, columns

    def __enter__(self) -> Self:
        module = cast("_RcModule", import_module("matplotlib"))
        self._context = module.rc_context(_STYLE)
        self._context.__enter__()
        figures = cast("_FigureModule", import_module("matplotlib.figure"))
        self._figure = figures.Figure(figsize=self._size, layout="constrained")
        drawn = self._figure.subplots(*self._shape, squeeze=False)
        self.axes = [list(row) for row in cast("Sequence[Sequence[Axes]]", drawn)]
        return self

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(*error)

    def title(self, text: str) -> None:
        """A title over all axes, from the left edge on."""
        self._figure.suptitle(text, x=0.008, ha="left", fontweight="bold", fontsize=10.5)

    def legend(self) -> None:
        """Who is who, below all axes."""
        handles, labels = self.axes[0][0].get_legend_handles_labels()
        self._figure.legend(handles, labels, loc="outside lower center", ncols=4)

    def svg(self) -> str:
        """The drawing."""
        file = io.BytesIO()
        self._figure.savefig(file, format="svg", metadata={"Date": None})
        return file.getvalue().decode()


class _Context(Protocol):
    def __enter__(self) -> object: ...

    def __exit__(self, *_: object) -> None: ...


class _RcModule(Protocol):
    def rc_context(self, rc: Mapping[str, object]) -> _Context: ...


class _FigureModule(Protocol):
    def Figure(self, **style: object) -> _Figure: ...
