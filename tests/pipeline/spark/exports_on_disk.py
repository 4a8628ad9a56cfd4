"""What an export has left on the disk: how far it was when it was killed can be read from that.

Nothing of the code that writes the tables is asked. Only what each format promises to everybody is:
Delta's log, Iceberg's metadata; for Parquet the manifests, which are ours.
"""

import json
import os
from enum import Enum
from pathlib import Path
from typing import NamedTuple, cast

Content = dict[str, object]


class Moment(Enum):
    """Where in its work a job was killed."""

    BEFORE_ROWS = "before it had written rows"
    WRITING = "rows written, not committed"
    HALF = "committed by half"
    """Iceberg: staged and not published. Parquet: a manifest whose files are not all moved."""
    BETWEEN = "between two commits"


class OnDisk(NamedTuple):
    """A table's folder at a moment."""

    commits: int
    halves: frozenset[str]
    loose: frozenset[str]
    """Files of rows that belong to no commit."""

    def moment(self, before: "OnDisk") -> Moment:
        """Where the job was killed that found the table as it was before, and left it like this."""
        if self.halves - before.halves:
            return Moment.HALF
        if self.loose - before.loose:
            return Moment.WRITING
        return Moment.BETWEEN if self.commits > before.commits else Moment.BEFORE_ROWS


def on_disk(kind: str, folder: Path) -> OnDisk:
    """What lies in the folder of a table; nothing, if there is none."""
    return {"iceberg": _iceberg, "delta": _delta, "parquet": _parquet}[kind](folder)


def row_files(folder: Path) -> set[str]:
    """Every file of rows below it, whether a commit names it or not; a job may be at work there."""
    return {
        str((Path(where) / name).relative_to(folder))
        for where, _, names in os.walk(folder)
        for name in names
        if name.endswith(".parquet")
    }


def _delta(folder: Path) -> OnDisk:
    commits = list((folder / "_delta_log").glob("*.json"))
    known: set[str] = set()
    for commit in commits:
        for line in commit.read_text().splitlines():
            added = cast("dict[str, Content]", json.loads(line)).get("add")
            if added is not None:
                known.add(str(added["path"]))
    rows = {path for path in row_files(folder) if not path.startswith("_delta_log/")}
    return OnDisk(len(commits), frozenset(), frozenset(rows - known))


def _iceberg(folder: Path) -> OnDisk:
    versions = sorted(
        (folder / "metadata").glob("v*.metadata.json"),
        key=lambda path: int(path.name.partition(".")[0][1:]),
    )
    if not versions:
        return OnDisk(0, frozenset(), frozenset())
    content = cast("Content", json.loads(versions[-1].read_text()))
    snapshots = {
        int(cast("int", each["snapshot-id"])): each
        for each in cast("list[Content]", content.get("snapshots", []))
    }
    summaries = {
        number: cast("dict[str, str]", each["summary"]) for number, each in snapshots.items()
    }
    published: set[int] = set()
    number = cast("int | None", content.get("current-snapshot-id"))
    while number in snapshots:
        published.add(number)
        published.add(int(summaries[number].get("source-snapshot-id", 0)))
        number = cast("int | None", snapshots[number].get("parent-snapshot-id"))
    staged = {str(each) for each in snapshots if each not in published}
    # A snapshot counts the files that it adds; one that was picked adds those of its source again.
    own = [each for each in summaries.values() if "source-snapshot-id" not in each]
    known = sum(int(each.get("added-data-files", 0)) for each in own)
    loose = len(row_files(folder / "data")) - known
    names = frozenset(str(each) for each in range(loose))
    return OnDisk(len(published & snapshots.keys()), frozenset(staged), names)


def _parquet(folder: Path) -> OnDisk:
    manifests = sorted((folder / "_tierlog" / "commits").glob("*.json"))
    halves: set[str] = set()
    waiting: set[str] = set()
    if manifests:
        newest = cast("Content", json.loads(manifests[-1].read_text()))
        staged = str(newest["staged"])
        waiting = {f"{staged}/{path}" for path in cast("list[str]", newest["added"])}
        if waiting & row_files(folder):
            halves.add(staged)
    rows = {path for path in row_files(folder) if path.startswith("_tierlog/staging/")}
    return OnDisk(len(manifests), frozenset(halves), frozenset(rows - waiting))
