"""One damage to one file on a copy of a disk, chosen by a seed."""

import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import NamedTuple

from tierlog.tests.simulation.disk import SimulatedDirectory, SimulatedDisk, SimulatedFile

Change = Callable[[random.Random, bytearray], bytearray]


def flip_bits(chance: random.Random, content: bytearray) -> bytearray:
    for _ in range(chance.choice((1, 1, 1, 3))):
        if content:
            position = chance.randrange(len(content))
            content[position] ^= 1 << chance.randrange(8)
    return content


def zero_a_range(chance: random.Random, content: bytearray) -> bytearray:
    start = chance.randint(0, len(content))
    size = min(len(content) - start, chance.choice((1, 8, 64, 512, 4096)))
    content[start : start + size] = bytes(size)
    return content


def cut(chance: random.Random, content: bytearray) -> bytearray:
    return content[: chance.randint(0, len(content))]


def extend_with_zeros(chance: random.Random, content: bytearray) -> bytearray:
    return content + bytes(chance.choice((1, 12, 100, 4096)))


def extend_with_nonsense(chance: random.Random, content: bytearray) -> bytearray:
    return content + chance.randbytes(chance.choice((1, 12, 100, 4096)))


def empty(chance: random.Random, content: bytearray) -> bytearray:
    return bytearray()


_CHANGES: dict[str, Change] = {
    "one bit": flip_bits,
    "bits": flip_bits,
    "zeros": zero_a_range,
    "cut": cut,
    "extension with zeros": extend_with_zeros,
    "extension with nonsense": extend_with_nonsense,
    "emptied": empty,
}


KINDS = tuple(_CHANGES)
"""Those that leave a file."""


def changed(content: bytes, kind: str, chance: random.Random) -> bytes:
    """The content after a damage of this kind."""
    return bytes(_CHANGES[kind](chance, bytearray(content)))


class Damage(NamedTuple):
    """What was done, and to which file."""

    path: str
    kind: str

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        return self.path.split("/")[2]


def files_below(directory: SimulatedDirectory, path: str) -> Iterator[str]:
    for name, node in sorted(directory.entries.items()):
        below = f"{path}/{name}"
        if isinstance(node, SimulatedDirectory):
            yield from files_below(node, below)
        elif name != ".lock":
            yield below


def paths_on(disk: SimulatedDisk) -> list[str]:
    """Every file of the data directory."""
    return list(files_below(disk.directory("/data"), "/data"))


def damaged(template: SimulatedDisk, chance: random.Random) -> tuple[SimulatedDisk, Damage]:
    """A copy of the disk with one damage that is on the platters."""
    paths = paths_on(template)
    # Of each kind of file, however many there are of it, as often as of any other.
    kinds = sorted({_kind(path) for path in paths})
    kind = chance.choice(kinds)
    path = chance.choice([each for each in paths if _kind(each) == kind])
    return damage_to(
        template, path, chance.choice((*KINDS, "removed", "directory", "copy")), chance
    )


def damage_to(
    template: SimulatedDisk, path: str, done: str, chance: random.Random | None = None
) -> tuple[SimulatedDisk, Damage]:
    """A copy of the disk with this damage to this file."""
    chance = chance or random.Random(0)
    disk, paths, kind = deepcopy(template), paths_on(template), _kind(path)
    file = disk.file(path)
    parent, name = disk.parent(path)
    if done == "removed":
        _set(parent, name, None)
    elif done == "directory":
        _set(parent, name, SimulatedDirectory())
    elif done == "copy":
        others = [each for each in paths if _kind(each) == kind and each != path] or paths
        _replace(file, disk.file(chance.choice(others)).content)
    else:
        _replace(file, _CHANGES[done](chance, bytearray(file.content)))
    return disk, Damage(path, done)


def _kind(path: str) -> str:
    """The log's or the directory's, and what the name of a segment's file ends with."""
    folder, _, name = path.removeprefix("/data/").rpartition("/")
    stem, dot, suffix = name.partition(".")
    # `42_<id>.index` in the cache of the tier's indexes.
    is_of_segment = dot and stem.partition("_")[0].isdigit()
    return f"{folder.partition('-')[0]}/{suffix if is_of_segment else name}"


def _set(
    parent: SimulatedDirectory, name: str, node: SimulatedFile | SimulatedDirectory | None
) -> None:
    parent.edit((name, node))
    parent.sync()


def _replace(file: SimulatedFile, content: bytearray) -> None:
    file.content = bytearray(content)
    file.durable = bytearray(content)
    file.unsynced.clear()
