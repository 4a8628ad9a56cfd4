"""Text that tools print for people: tables, and numbers of things."""

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with aligned columns; numbers are right-aligned."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines: list[str] = []
    for row in (head, *rows):
        cells = [
            cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def counted(number: int, thing: str, one: str = "", many: str = "") -> str:
    """A number with its noun and verb: 1 segment is, 2,000 segments are."""
    noun, verb = (thing, one) if number == 1 else (f"{thing}s", many)
    return f"{number:,} {noun}" + (f" {verb}" if verb else "")
