"""A disk that forgets what was not synced.

Everything written is visible at once and durable only after its barrier: the content and length of
a file after `flush`, the names in a directory after `sync_dir` of that directory. At a power loss
each change since the last barrier may survive whole, survive in part, or be gone, and a later one
may survive an earlier one: that is what page caches and disks really do. Names are kinder, as
journaling file systems are: the edits of one directory survive in their order, up to some point.

A flush that fails is the cruellest case, and it is Linux's: the pages count as clean afterwards, so
a later flush succeeds without having written them.
"""

import errno
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple, TypeAlias


class Kind(Enum):
    """The operations that change a disk: each can fail, and power can go at each of them."""

    CREATE = auto()
    WRITE = auto()
    STORE = auto()  # into a mapped file
    TRUNCATE = auto()
    FLUSH = auto()
    RENAME = auto()
    REMOVE = auto()
    MAKE_DIRECTORY = auto()
    SYNC_DIRECTORY = auto()
    OPEN = auto()  # of a file that is there: it changes nothing, and can fail


UNLIMITED_BYTES = 1 << 40

BARRIERS = frozenset({Kind.FLUSH, Kind.SYNC_DIRECTORY})


class Survival(Enum):
    """What a power loss does to changes that no barrier protects."""

    NOTHING = auto()
    NAMES = auto()
    """Every name and no content: journaled metadata reaches a disk long before cached pages do."""
    EVERYTHING = auto()
    BY_CHANCE = auto()


class PowerLoss(BaseException):  # no error that code may handle: the process is gone
    """The power went. Not an Exception, so that no handler under test catches it."""


class Change(NamedTuple):
    """A write at a position, or without `data` a cut or extension to that length."""

    position: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        missing = self.position - len(content)
        if missing > 0:
            content.extend(bytes(missing))
        if self.data is None:
            del content[self.position :]
        else:
            content[self.position : self.position + len(self.data)] = self.data

    def torn(self, chance: random.Random) -> "Change":
        """A part from the start, as long as chance has it."""
        if self.data is None:
            return self
        return Change(self.position, self.data[: chance.randint(0, len(self.data))])


@dataclass(eq=False, slots=True)
class SimulatedFile:
    """What readers see, what is safe, and the changes between the two."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[Change] = field(default_factory=list[Change])
    # Changes whose flush failed: no later flush writes them, yet they may have reached the disk.
    abandoned: list[Change] = field(default_factory=list[Change])
    modified_ms: int = 0

    def change(self, change: Change) -> None:
        change.apply(self.content)
        self.unsynced.append(change)

    def flush(self) -> None:
        for change in self.unsynced:
            change.apply(self.durable)
        self.unsynced.clear()

    def fail_to_flush(self) -> None:
        self.abandoned += self.unsynced
        self.unsynced.clear()

    def lose_power(self, survival: Survival, chance: random.Random) -> None:
        for change in (*self.abandoned, *self.unsynced):
            fate = "whole" if survival is Survival.EVERYTHING else "gone"
            if survival is Survival.BY_CHANCE:
                fate = chance.choice(("whole", "torn", "gone"))
            if fate != "gone":
                (change.torn(chance) if fate == "torn" else change).apply(self.durable)
        self.abandoned.clear()
        self.unsynced.clear()
        self.content = bytearray(self.durable)


# One edit of a directory: names that appear (with their node) or vanish (with None) together.
Edit: TypeAlias = tuple[tuple[str, "Node | None"], ...]


@dataclass(eq=False, slots=True)
class SimulatedDirectory:
    """Names as readers see them, names that are safe, and the edits between the two."""

    entries: dict[str, "Node"] = field(default_factory=dict[str, "Node"])
    durable: dict[str, "Node"] = field(default_factory=dict[str, "Node"])
    unsynced: list[Edit] = field(default_factory=list[Edit])

    def edit(self, *names: "tuple[str, Node | None]") -> None:
        _apply_edit(names, self.entries)
        self.unsynced.append(names)

    def sync(self) -> None:
        for edit in self.unsynced:
            _apply_edit(edit, self.durable)
        self.unsynced.clear()

    def lose_power(self, survival: Survival, chance: random.Random) -> None:
        count = len(self.unsynced)
        kept = {
            Survival.NOTHING: 0,
            Survival.NAMES: count,
            Survival.EVERYTHING: count,
            Survival.BY_CHANCE: chance.randint(0, count),
        }[survival]
        for edit in self.unsynced[:kept]:
            _apply_edit(edit, self.durable)
        self.unsynced.clear()
        self.entries = dict(self.durable)
        for name in sorted(self.entries):
            self.entries[name].lose_power(survival, chance)


Node: TypeAlias = SimulatedFile | SimulatedDirectory


def _apply_edit(edit: Edit, names: dict[str, Node]) -> None:
    for name, node in edit:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


@dataclass(slots=True)
class Fault:
    """The next `times` operations of a kind on paths that end in `suffix` fail with `error`."""

    kind: Kind
    error: int = errno.EIO
    suffix: str = ""
    times: int = 1
    after: int = 0
    """So many operations go well first."""

    @property
    def is_of_opening(self) -> bool:
        """Whether no descriptor is left: what is open already goes on."""
        return self.error in (errno.EMFILE, errno.ENFILE)

    def strikes(self, kind: Kind, path: str) -> bool:
        if self.times == 0 or kind is not self.kind or not path.endswith(self.suffix):
            return False
        if self.after:
            self.after -= 1
            return False
        self.times -= 1
        return True


class SimulatedDisk:
    """One volume of `capacity_bytes`, which outlives the processes that use it.

    `operations` counts every operation that changes the disk; `power_fails_at` names the one at
    which the power goes: a barrier then has not happened, any other change is on its way.
    """

    def __init__(self, capacity_bytes: int = UNLIMITED_BYTES) -> None:
        self.root = SimulatedDirectory()
        self.capacity_bytes = capacity_bytes
        self.operations = 0
        self.power_fails_at: int | None = None
        self.faults: list[Fault] = []
        self.locked: set[str] = set()
        self.now_ms = 0
        self.last_operation = "none"
        self.when_power_fails: Callable[[], None] | None = None
        """Called at the operation that `power_fails_at` names, to end the rest of the process."""

    def count(self, kind: Kind, path: str, *, is_open: bool = False) -> bool:
        """Count one operation; whether the power goes at it; OSError where a fault strikes.

        What `is_open` needs no descriptor.
        """
        self.operations += 1
        self.last_operation = f"{kind.name} {path}"
        for fault in self.faults:
            if not (is_open and fault.is_of_opening) and fault.strikes(kind, path):
                raise OSError(fault.error, os.strerror(fault.error), path)
        return self.operations == self.power_fails_at

    def open_directory(self, path: str) -> "SimulatedDirectory":
        """The directory at a path; OSError where no descriptor is left for it."""
        for fault in self.faults:
            if fault.is_of_opening and fault.strikes(Kind.SYNC_DIRECTORY, path):
                raise OSError(fault.error, os.strerror(fault.error), path)
        return self.directory(path)

    def open_file(self, path: str) -> "SimulatedFile":
        """The file at a path; OSError where it cannot be opened."""
        for fault in self.faults:
            if fault.strikes(Kind.OPEN, path):
                raise OSError(fault.error, os.strerror(fault.error), path)
        return self.file(path)

    def lose_power(self, survival: Survival, chance: random.Random) -> None:
        """Forget what was not synced, as far as `survival` says; locks are free again."""
        self.root.lose_power(survival, chance)
        self.locked.clear()
        self.power_fails_at = None

    def free_bytes(self) -> int:
        """The room that is left; a disk without a limit counts nothing."""
        is_limited = self.capacity_bytes < UNLIMITED_BYTES
        return self.capacity_bytes - self.used_bytes() if is_limited else UNLIMITED_BYTES

    def used_bytes(self) -> int:
        return sum(len(file.content) for file in _files_below(self.root))

    def find(self, path: str) -> Node | None:
        """What is at a path now, or None."""
        node: Node = self.root
        for name in _names(path):
            if not isinstance(node, SimulatedDirectory) or name not in node.entries:
                return None
            node = node.entries[name]
        return node

    def directory(self, path: str) -> SimulatedDirectory:
        """The directory at a path; FileNotFoundError or NotADirectoryError."""
        node = self.find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not isinstance(node, SimulatedDirectory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def file(self, path: str) -> SimulatedFile:
        """The file at a path; FileNotFoundError or IsADirectoryError."""
        node = self.find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not isinstance(node, SimulatedFile):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def parent(self, path: str) -> tuple[SimulatedDirectory, str]:
        """The directory that holds a path's last name, and that name."""
        head, _, name = path.rstrip("/").rpartition("/")
        return self.directory(head), name


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _files_below(directory: SimulatedDirectory) -> Iterator[SimulatedFile]:
    for node in directory.entries.values():
        if isinstance(node, SimulatedFile):
            yield node
        else:
            yield from _files_below(node)
