"""The report as Markdown, with the same tables and links to the plots, and its summary.

The summary is a separate document with headlines only, without plots. Text from a results file is
escaped, so that no name can end a table's row or become a link.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .tables import Table, TableCell

if TYPE_CHECKING:
    from .plots import Plot
    from .report_contents import Report, Section

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")


def escaped(text: str) -> str:
    """Text escaped for Markdown, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], row_heads: int = 1) -> str:
    """A table of Markdown cells; row heads are left-aligned, figures right-aligned."""
    rules = ["---" if column < row_heads else "---:" for column in range(len(head))]
    lines = (head, rules, *rows)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def table_text(table: Table) -> str:
    """A table of the report as Markdown."""
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    text = markdown_table([escaped(each) for each in table.head], rows, table.row_heads)
    return f"{escaped(table.caption)}:\n\n{text}" if table.caption else text


def _cell(cell: TableCell) -> str:
    return f"{escaped(cell.text)} ({escaped(cell.spread)})" if cell.spread else escaped(cell.text)


def markdown_report(report: "Report") -> str:
    """The whole report."""
    return "\n\n".join((*_begin(report), *_sections(report), *_cost(report))) + "\n"


def markdown_summary(report: "Report") -> str:
    """The summary, short enough for an issue or a page of results."""
    return "\n\n".join((*_begin(report), *_sections(report, is_brief=True))) + "\n"


def _begin(report: "Report") -> Iterator[str]:
    yield f"# {escaped(report.title)}"
    yield markdown_table(
        ("machine and versions", ""),
        [(escaped(name), escaped(value)) for name, value in report.facts],
        row_heads=2,
    )
    yield "## Failures"
    if not report.failures:
        yield "No run failed."
    else:
        yield f"{len(report.failures)} runs failed; none of them counts in any figure below."
        yield markdown_table(
            ("scenario", "case", "target", "tiered", "run", "reason"),
            [
                (
                    escaped(failure.scenario),
                    escaped(failure.case),
                    escaped(failure.target),
                    "yes" if failure.tiered else "no",
                    str(failure.run),
                    escaped(failure.reason),
                )
                for failure in report.failures
            ],
            row_heads=6,
        )
    if report.refused:
        yield "Not measured:"
        yield "\n".join(f"- {escaped(each)}" for each in report.refused)
    yield "## What it comes to"
    for question in report.overview.questions:
        yield table_text(question.table())


def _sections(report: "Report", *, is_brief: bool = False) -> Iterator[str]:
    for section in report.sections:
        tables = [table for table in section.tables if table.is_headline or not is_brief]
        if tables:
            yield from _section(section, tables)
            if not is_brief:
                yield from (_plot(plot) for plot in section.plots)


def _cost(report: "Report") -> Iterator[str]:
    if report.cost is not None:
        yield "## Cost"
        yield from (escaped(note) for note in report.cost.notes)
        yield from (table_text(table) for table in report.cost.tables)


def _section(section: "Section", tables: Sequence[Table]) -> Iterator[str]:
    yield f"## {escaped(section.name)}"
    if section.summary:
        yield escaped(section.summary)
    yield section.runs
    if section.published is not None:
        yield table_text(section.published)
    yield from (table_text(table) for table in tables)


def _plot(plot: "Plot") -> str:
    return f"![{escaped(plot.title)}](plots/{plot.name}.svg)"
