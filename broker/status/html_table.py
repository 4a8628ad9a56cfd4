"""A table as HTML. Pure: from the objects of an answer to markup, row by row.

Every text goes through `text`, so none can become an element, an attribute, or turn around what
stands beside it. A table has a caption, and each of its rows and columns a head, which is how it is
read aloud; it scrolls in a region of its own, which the keyboard reaches.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias, cast

from .sources import Json

Pieces: TypeAlias = Iterator[str]
"""Markup, in pieces of which none is longer than a row."""

_MISSING = "–"
_UNSEEN = dict.fromkeys(
    (
        *(*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F),
        *(*range(0x2028, 0x202F), *range(0x2066, 0x206A)),
    ),
    "\ufffd",
)
"""Characters that turn the text beside them around, or that cannot be seen; as in status.js."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; the first one has the heads of the rows."""

    head: str
    cell: Callable[[Json], str]
    """Makes the markup of a cell."""
    is_number: bool = False


def text(value: object) -> str:
    """The markup of a text or a number; a dash where there is none."""
    return _MISSING if value is None else escape(str(value).translate(_UNSEEN))


def number(value: object) -> str:
    """The markup of a number, in groups of three digits; a dash where there is none."""
    return _MISSING if value is None else f"{cast('int', value):,}"


def text_column(head: str, name: str) -> Column:
    """A column with a member of the elements as text."""
    return Column(head, lambda element: text(element[name]))


def number_column(head: str, name: str) -> Column:
    """A column with a member of the elements as a number."""
    return Column(head, lambda element: number(element[name]), True)


def elements(status: Json, name: str) -> list[Json]:
    """A list of an answer."""
    return cast("list[Json]", status[name])


def rest_sentence(count: object, words: str) -> str:
    """A sentence about elements that are not in a list; "" if all are."""
    return f'<p class="quiet">{number(count)} {words} not listed.</p>\n' if count else ""


def table(caption: str, columns: Sequence[Column], rows: Iterable[Json]) -> Pieces:
    """A table with a row for each of the elements."""
    heads = "".join(_cell("th", column, text(column.head), "col") for column in columns)
    yield (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}"><table>\n'
        f"<caption>{text(caption)}</caption>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n"
    )
    first, *others = columns
    is_empty = True
    for element in rows:
        is_empty = False
        cells = "".join(_cell("td", column, column.cell(element)) for column in others)
        yield f"<tr>{_cell('th', first, first.cell(element), 'row')}{cells}</tr>\n"
    if is_empty:
        yield f'<tr><td colspan="{len(columns)}" class="quiet">none</td></tr>\n'
    yield "</tbody>\n</table></div>\n"


def _cell(tag: str, column: Column, markup: str, scope: str = "") -> str:
    of_scope = f' scope="{scope}"' if scope else ""
    of_class = ' class="number"' if column.is_number else ""
    return f"<{tag}{of_scope}{of_class}>{markup}</{tag}>"
