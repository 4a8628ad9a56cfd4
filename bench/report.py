"""Plain-text tables of figures, aligned for a terminal and pasteable into Markdown."""

from collections.abc import Sequence

MEBIBYTE = 1 << 20
GIGABYTE = 10**9


def ratio(ours: float, theirs: float) -> str:
    """Ours over theirs, or a dash where theirs is nothing."""
    return f"{ours / theirs:.3f}" if theirs else "–"


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table; the first column reads left, figures stand right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first = cells[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
        return "| " + " | ".join((first, *rest)) + " |"

    print(f"\n{title}\n")
    print(line(header))
    print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    for row in rows:
        print(line(row))
    print(flush=True)
