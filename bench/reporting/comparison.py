"""Compares two results folders and marks the figures that have changed.

A figure has changed if the ranges of its runs do not overlap: the lowest of one is above the
highest of the other. With few runs this also happens by chance, and the report says how often. If
either side has only one run, its spread is unknown, so nothing is marked.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..figures import MetricKey, Results, read_results
from .machine_facts import facts_of
from .markdown import escaped, markdown_table
from .metric import Better, in_figures, metric_of, ratio_text
from .spread import Measured, measured_cells

_COMPARED_FACTS = ("machine", "versions", "options: scale", "options: tier")
"""The prefixes of the names of facts that are shown if they differ."""


@dataclass(frozen=True, slots=True)
class Change:
    """One figure, before and after."""

    key: MetricKey
    old: Measured
    new: Measured

    @property
    def ratio(self) -> float | None:
        return self.new.median / self.old.median if self.old.median else None

    @property
    def has_spread(self) -> bool:
        return len(self.old.values) > 1 and len(self.new.values) > 1

    @property
    def has_moved(self) -> bool:
        """Whether the two ranges do not overlap."""
        apart = self.new.low > self.old.high or self.new.high < self.old.low
        return self.has_spread and apart

    @property
    def mark(self) -> str:
        """The text in the last column."""
        if not self.has_spread:
            return "one run"
        if not self.has_moved:
            return ""
        better = metric_of(self.key.metric).better
        if better is Better.NEITHER:
            return "moved"
        rose = self.new.median > self.old.median
        return "BETTER" if rose == (better is Better.HIGHER) else "WORSE"

    @property
    def chance(self) -> float:
        """The probability that such ranges do not overlap although nothing has changed."""
        return 2 / math.comb(len(self.old.values) + len(self.new.values), len(self.old.values))


def changes(old: Results, new: Results) -> list[Change]:
    """Every figure that is in both, in the order of the new results."""
    before = measured_cells(old.figures, old.failures)
    after = measured_cells(new.figures, new.failures)
    return [Change(key, before[key], measured) for key, measured in after.items() if key in before]


def compare(old: Path, new: Path) -> str:
    """The comparison of both folders as Markdown. Raises ResultsError."""
    return "\n\n".join(_parts(old, new, read_results(old), read_results(new))) + "\n"


def _parts(old_path: Path, new_path: Path, old: Results, new: Results) -> Iterator[str]:
    yield f"# {escaped(str(old_path))} → {escaped(str(new_path))}"
    yield from _machines(old.machine, new.machine)
    for path, results in ((old_path, old), (new_path, new)):
        if count := len(results.failures):
            runs = "run" if count == 1 else "runs"
            yield f"{count} {runs} of {escaped(str(path))} failed and do not count."
    all_changes = changes(old, new)
    if not all_changes:
        yield "The two have no figure in common."
        return
    moved = [change for change in all_changes if change.has_moved]
    yield _sentence(all_changes, moved)
    if moved:
        yield "## Moved beyond the spread of runs"
        yield _table(moved)
    rest = [change for change in all_changes if not change.has_moved]
    if rest:
        yield "## Everything else"
        yield _table(rest)
    yield from _missing(old, new)


def _machines(old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[str]:
    before, after = dict(facts_of(old)), dict(facts_of(new))
    differing = [
        f"{name}: {before.get(name, 'not said')} → {after.get(name, 'not said')}"
        for name in dict.fromkeys((*before, *after))
        if name.startswith(_COMPARED_FACTS) and before.get(name) != after.get(name)
    ]
    if differing:
        yield "**These differ between the two, and may be the cause of changes:**"
        yield "\n".join(f"- {escaped(each)}" for each in differing)


def _sentence(all_changes: list[Change], moved: list[Change]) -> str:
    with_spread = [change for change in all_changes if change.has_spread]
    if not with_spread:
        return f"{len(all_changes)} figures, none of more than one run: changes cannot be judged."
    better = sum(change.mark == "BETTER" for change in moved)
    worse = sum(change.mark == "WORSE" for change in moved)
    by_chance = sum(change.chance for change in with_spread)
    return (
        f"{len(moved)} of {len(with_spread)} figures lie apart ({better} better, "
        f"{worse} worse). With so few runs about {by_chance:.0f} would by chance alone."
    )


def _table(all_changes: list[Change]) -> str:
    rows = [
        (
            escaped(change.key.scenario),
            escaped(change.key.case),
            escaped(f"{change.key.target}{' tiered' if change.key.tiered else ''}"),
            escaped(metric_of(change.key.metric).title),
            _value(change.old),
            _value(change.new),
            ratio_text(change.ratio),
            change.mark,
        )
        for change in all_changes
    ]
    head = ("scenario", "case", "target", "figure", "old", "new", "new ÷ old", "")
    return markdown_table(head, rows, row_heads=4)


def _value(measured: Measured) -> str:
    low, high = in_figures(measured.low), in_figures(measured.high)
    spread = f" ({low} to {high})" if low != high else ""
    return f"{in_figures(measured.median)}{spread}"


def _missing(old: Results, new: Results) -> Iterator[str]:
    """The cases with figures in only one of the two."""
    before = measured_cells(old.figures, old.failures)
    after = measured_cells(new.figures, new.failures)
    for title, here, there in (("old", before, after), ("new", after, before)):
        only = dict.fromkeys(
            f"{key.scenario}, {key.case}, {key.target}" for key in here if key not in there
        )
        if only:
            yield f"Figures that only the {title} one has:"
            yield "\n".join(f"- {escaped(each)}" for each in only)
