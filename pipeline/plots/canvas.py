"""Draws figures without a window and writes them as SVG; nothing else uses matplotlib.

Text is written as text, so that a plot can be searched and read at any size; it is never parsed as
math, and matplotlib escapes it for XML. The same data always produces the same bytes.

The colours are those of Okabe and Ito, which people with any colour vision can distinguish.
Series that must not be confused differ in more than colour: in hatch, dash or position.
"""

import io
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Protocol, Self, cast

Numbers = Sequence[float]


class Axes(Protocol):
    """The part of matplotlib's Axes used here; its own annotations are too loose to check."""

    def barh(self, y: Numbers, width: Numbers, **style: object) -> object: ...

    def bar(self, x: Numbers, height: Numbers, **style: object) -> object: ...

    def broken_barh(
        self, xranges: Sequence[tuple[float, float]], yrange: tuple[float, float], **style: object
    ) -> object: ...

    def step(self, x: Numbers, y: Numbers, **style: object) -> object: ...

    def plot(self, x: Numbers, y: Numbers, **style: object) -> object: ...

    def errorbar(self, x: Numbers, y: Numbers, **style: object) -> object: ...

    def fill_between(self, x: Numbers, low: Numbers, high: Numbers, **style: object) -> object: ...

    def text(self, x: float, y: float, text: str, **style: object) -> object: ...

    def axvline(self, x: float, **style: object) -> object: ...

    def axhline(self, y: float, **style: object) -> object: ...

    def grid(self, visible: bool, **style: object) -> object: ...

    def legend(self, **style: object) -> object: ...

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

    def xaxis_date(self) -> object:
        """Treat x values as days since 1970."""
        ...

    def tick_params(self, **style: object) -> object: ...


class _Figure(Protocol):
    def subplots(self, rows: int, columns: int, **style: object) -> object: ...

    def suptitle(self, title: str, **style: object) -> object: ...

    def legend(self, handles: list[object], labels: list[str], **style: object) -> object: ...

    def savefig(self, file: io.BytesIO, **style: object) -> None: ...


_STYLE: Mapping[str, object] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tierlog",
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

BLUE, ORANGE, GREEN, PINK, SKY, YELLOW, BLACK, GREY = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
    *("#56B4E9", "#E69F00", "#000000", "#777777"),
)
PALETTE = (BLUE, ORANGE, GREEN, PINK, SKY, YELLOW, BLACK)
DASHES = ("-", "--", "-.", ":")

_LABEL_CHARACTERS = 32
_LEGEND_CHARACTERS = 110
"""About how many characters a row of a legend has room for."""


def label_of(name: str, suffix: str = "") -> str:
    """A name with a suffix as the label of a row or a line; a long name loses its middle.

    A label has no bound of its own: one of 249 characters leaves no room for the plot.
    """
    if len(name) > _LABEL_CHARACTERS:
        half = _LABEL_CHARACTERS // 2
        name = f"{name[: half - 1]}…{name[-half:]}"
    return name + suffix


class Canvas:
    """A figure with rows and columns of axes, drawn inside `with`. Sizes are in inches."""

    def __init__(
        self,
        width: float,
        height: float,
        rows: int = 1,
        columns: int = 1,
        row_heights: Numbers | None = None,
    ) -> None:
        """`row_heights` are the heights of the rows in proportion; None if all are equal."""
        self._size = width, height
        self._shape = rows, columns
        self._grid = {} if row_heights is None else {"height_ratios": list(row_heights)}

    def __enter__(self) -> Self:
        module = cast("_RcModule", import_module("matplotlib"))
        self._context = module.rc_context(_STYLE)
        self._context.__enter__()
        figures = cast("_FigureModule", import_module("matplotlib.figure"))
        self._figure = figures.Figure(figsize=self._size, layout="constrained")
        drawn = self._figure.subplots(*self._shape, squeeze=False, gridspec_kw=self._grid)
        self.axes = [list(row) for row in cast("Sequence[Sequence[Axes]]", drawn)]
        return self

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(*error)

    def title(self, text: str) -> None:
        """Put a title above all axes, aligned left."""
        self._figure.suptitle(text, x=0.008, ha="left", fontweight="bold", fontsize=10.5)

    def legend(self) -> None:
        """Put a legend below all axes, with the labels of the first axes."""
        handles, labels = self.axes[0][0].get_legend_handles_labels()
        longest = max((len(label) for label in labels), default=0)
        columns = max(1, min(4, _LEGEND_CHARACTERS // (longest + 8)))
        self._figure.legend(handles, labels, loc="outside lower center", ncols=columns)

    def svg(self) -> str:
        """The figure as SVG text."""
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
