"""The page of a report: one self-contained HTML file, for a browser or a printer.

A section's description is also the alternative text of its plot. Everything from the tier (topic
names, object keys) is escaped.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape

from ....clients.record.batch import NO_TIMESTAMP
from ....tiering.tools.tier_survey import Finding

_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --text: #222; --quiet: #555; --line: #ddd;
        --strong-line: #888; --good: #0072B2; --good-ground: #eef5fa; --bad: #D55E00;
        --bad-ground: #fcf0e8; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #11161d; --text: #e6e9ee; --quiet: #a9b2bd; --line: #2f3843;
          --strong-line: #6b7684; --good: #56B4E9; --good-ground: #16283a; --bad: #E69F00;
          --bad-ground: #35240f; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--ground);
       max-width: 1200px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem; }
p { margin: .3rem 0 .6rem; overflow-wrap: anywhere; } .quiet { color: var(--quiet); }
.verdict { border-left: 6px solid var(--good); background: var(--good-ground);
           padding: .6rem 1rem; margin: 1rem 0; font-weight: 600; }
.verdict.bad { border-color: var(--bad); background: var(--bad-ground); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: left;
         vertical-align: top; }
th { border-bottom: 2px solid var(--strong-line); white-space: nowrap; }
.number { text-align: right; } td.number, td.short { white-space: nowrap; }
td.long, td.key { min-width: 14rem; overflow-wrap: anywhere; }
td.key { font-family: ui-monospace, monospace; font-size: .85em; }
img { width: 100%; max-width: 60rem; min-width: 40rem; height: auto; display: block;
      margin: .6rem 0; background: #fff; }
@media print { img { min-width: 0; } }
"""
# Plots are white in the dark too: their descriptions name their colours.

_FINDINGS_AT_MOST = 1000
"""The most findings on the page; --json has all."""

_SHORT = 28
"""The most characters of a cell that is never broken into lines."""

_NAMES_OF_OBJECTS = frozenset({"object", "table"})
"""The titles of columns that hold keys or paths."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, its description, and a plot, a table or both."""

    title: str
    says: str
    svg: str | None = None
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()

    def html(self) -> str:
        """The section's HTML."""
        parts = [f"<h2>{escape(self.title)}</h2>", f"<p>{escape(self.says)}</p>"]
        if self.svg is not None:
            source = b64encode(self.svg.encode()).decode()
            plot = f'<img alt="{escape(self.says)}" src="data:image/svg+xml;base64,{source}">'
            parts.append(_scrolled(plot, f"{self.title}: plot"))
        if self.rows:
            parts.append(_scrolled(_table(self.head, self.rows), f"{self.title}: table"))
        return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report."""

    title: str
    tier: str
    made_ms: int
    conclusion: str
    is_good: bool
    sections: Sequence[Section]

    def html(self) -> str:
        """The file's contents."""
        kind = "verdict" if self.is_good else "verdict bad"
        sections = "\n".join(section.html() for section in self.sections)
        return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(self.title)}: {escape(self.tier)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{escape(self.title)}</h1>
<p class="quiet">{escape(self.tier)}, {time_text(self.made_ms)} UTC</p>
<p class="{kind}">{escape(self.conclusion)}</p>
{sections}
</main>
</body>
</html>
"""


def findings_section(findings: Sequence[Finding]) -> Section:
    """The section with a table of the findings: object, offsets, problem, what to do."""
    ordered = sorted(findings, key=lambda each: not each.is_trouble)
    says = "No findings." if not findings else "Findings that need attention come first."
    if len(ordered) > _FINDINGS_AT_MOST:
        says = f"The first {_FINDINGS_AT_MOST:,} of {len(ordered):,}; --json has them all. {says}"
    rows = [
        [
            "needs attention" if finding.is_trouble else "note",
            finding.key,
            f"{finding.offsets[0]} to {finding.offsets[-1]}" if finding.offsets else "–",
            finding.problem,
            finding.advice,
        ]
        for finding in ordered[:_FINDINGS_AT_MOST]
    ]
    return Section(
        "Findings", says, None, ["kind", "object", "offsets", "problem", "what to do"], rows
    )


def _scrolled(content: str, name: str) -> str:
    """What may be wider than the window, in a region that mouse, finger and keyboard scroll."""
    label = escape(name)
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{content}</div>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; columns of numbers are right-aligned, and what is long may break anywhere."""
    kinds = [_kind(title, [row[index] for row in rows]) for index, title in enumerate(head)]
    titles = "".join(
        f'<th class="{kind}">{escape(each)}</th>' for kind, each in zip(kinds, head, strict=True)
    )
    lines = "\n".join(
        "<tr>"
        + "".join(
            f'<td class="{kind}">{escape(cell)}</td>' for kind, cell in zip(kinds, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{titles}</tr></thead>\n<tbody>{lines}</tbody></table>"


def _kind(title: str, cells: Sequence[str]) -> str:
    if title in _NAMES_OF_OBJECTS and any("/" in cell for cell in cells):
        return "key"
    if any(len(cell) > _SHORT for cell in cells):
        return "long"
    has_number = any(cell[:1].isdigit() for cell in cells)
    is_number = all(cell[:1].isdigit() or cell in ("–", "") for cell in cells)
    return "number" if has_number and is_number else "short"


def time_text(timestamp_ms: int) -> str:
    """A record's time in UTC, or in milliseconds if it is outside the calendar."""
    if timestamp_ms == NO_TIMESTAMP:
        return "–"
    try:
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return f"{time:%Y-%m-%d %H:%M:%S}"
