"""Damages files of a log directory while no process uses it, as a bad disk or a careless hand does.

Each function damages the files of some partitions, and says which. None of them touches the log of
the metadata quorum: what a controller has promised to others (its votes, records that they count
as committed) is on one disk, and a controller of Kafka keeps no promise either when that is lost.

What is damaged is what recovery looks at after a crash: the active segment, all indexes, and the
checkpoints. Neither Kafka nor tierlog reads closed segments when it starts, so damage there stays
until a reader meets it; the answer to that is a new disk (`images.py` has it as a fault).
"""

import random
import struct
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

from ....storage.checkpoint import (
    HIGH_WATERMARK_FILE,
    LEADER_EPOCH_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
)
from ....storage.log_file import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    parse_partition_directory,
)
from ..processes.cluster import METADATA_LOG

Damage = Callable[[Path, random.Random], list[Path]]
"""Damages some files of a log directory and returns them."""

_BYTES_FLIPPED_MAX = 8
_LENGTH = struct.Struct(">i")
_LENGTH_END = 12
"""Behind a batch's base offset and length; the leader epoch follows."""
_EPOCH_BYTES = 4
_HEADER_BYTES = 61
_UNCHECKED = frozenset({*range(8), *range(_LENGTH_END, _LENGTH_END + _EPOCH_BYTES)})
"""The bytes of a batch that its CRC does not cover, and nothing else does."""
_CUT_BYTES = 3
_GARBAGE = b"\x00\xff this is not what was written here\n"


def partition_directories(log_directory: Path, chance: random.Random) -> list[Path]:
    """About half of the partitions' directories, at least one if there is any."""
    all_of_them = [
        path
        for path in sorted(log_directory.iterdir())
        if path.is_dir() and parse_partition_directory(path.name) and path.name != METADATA_LOG
    ]
    if not all_of_them:
        return []
    return chance.sample(all_of_them, (len(all_of_them) + 1) // 2)


def _to_active_segments(damage: Callable[[Path, random.Random], None]) -> Damage:
    """Damage each active segment that holds something."""

    def damage_all(log_directory: Path, chance: random.Random) -> list[Path]:
        damaged: list[Path] = []
        for directory in partition_directories(log_directory, chance):
            segments = sorted(directory.glob(f"*{LOG_SUFFIX}"))
            if segments and segments[-1].stat().st_size > 0:
                damage(segments[-1], chance)
                damaged.append(segments[-1])
        return damaged

    return damage_all


@_to_active_segments
def flip_bytes(segment: Path, chance: random.Random) -> None:
    """Change some bytes of active segments, which fsync may have reported to be durable.

    Those of a batch's base offset and leader epoch stay: its CRC does not cover them (the leader
    writes them after the producer has computed it), and so no broker can see their damage.
    """
    content = bytearray(segment.read_bytes())
    batches = _batch_starts(content)
    for _ in range(chance.randint(1, _BYTES_FLIPPED_MAX)):
        at = chance.randrange(len(content))
        batch = batches[bisect_right(batches, at) - 1]
        if at - batch in _UNCHECKED and batch + _HEADER_BYTES <= len(content):
            at += _LENGTH_END + _EPOCH_BYTES
        content[at] ^= chance.randint(1, 255)
    segment.write_bytes(content)


def _batch_starts(content: bytes | bytearray) -> list[int]:
    """Where the batches of a segment begin, as far as their lengths can be followed."""
    starts, at = [0], 0
    while at + _LENGTH_END <= len(content):
        (length,) = _LENGTH.unpack_from(content, at + _LENGTH_END - _LENGTH.size)
        if length < _HEADER_BYTES - _LENGTH_END:
            break
        at += _LENGTH_END + length
        starts.append(at)
    return starts


@_to_active_segments
def truncate_segments(segment: Path, chance: random.Random) -> None:
    """Cut active segments off anywhere, also in the middle of a batch."""
    with segment.open("r+b") as file:
        file.truncate(chance.randrange(segment.stat().st_size))


@_to_active_segments
def append_garbage(segment: Path, chance: random.Random) -> None:
    """Add bytes to active segments that are no batch, as a torn write does."""
    with segment.open("ab") as file:
        file.write(chance.randbytes(chance.randint(1, 4096)))


def damage_indexes(log_directory: Path, chance: random.Random) -> list[Path]:
    """Remove indexes or make their length impossible; rewrite those of active segments."""
    damaged: list[Path] = []
    for directory in partition_directories(log_directory, chance):
        segments = sorted(directory.glob(f"*{LOG_SUFFIX}"))
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            for index in sorted(directory.glob(f"*{suffix}")):
                is_active = bool(segments) and index.stem == segments[-1].stem
                _damage_index(index, chance, is_active=is_active)
                damaged.append(index)
    return damaged


def _damage_index(index: Path, chance: random.Random, *, is_active: bool) -> None:
    size = index.stat().st_size
    kinds = ["remove", "cut", "rewrite"]
    match chance.choice(kinds if is_active else kinds[:-1]):
        case "remove":
            # Without its index of transactions, a closed segment has had no aborted ones.
            if is_active or not index.name.endswith(TXN_INDEX_SUFFIX):
                index.unlink()
        case "cut":
            if size > 1 and not index.name.endswith(TXN_INDEX_SUFFIX):
                with index.open("r+b") as file:
                    file.truncate(size // 2 | 1)
        case _:
            index.write_bytes(chance.randbytes(size))


def _spoil(path: Path, chance: random.Random) -> None:
    """Make a small file empty, cut it off, or overwrite its end, or remove it."""
    content = path.read_bytes()
    match chance.choice(("empty", "cut", "garbage", "remove")):
        case "empty":
            path.write_bytes(b"")
        case "cut":
            # Not in the middle of a number: nothing shows that such a line was longer.
            path.write_bytes(content[:_CUT_BYTES])
        case "garbage":
            path.write_bytes(content[: len(content) // 2] + _GARBAGE)
        case _:
            path.unlink()


def damage_checkpoints(log_directory: Path, chance: random.Random) -> list[Path]:
    """Spoil the checkpoints of the directory, and the histories of epochs of some partitions."""
    names = (RECOVERY_POINT_FILE, HIGH_WATERMARK_FILE, LOG_START_FILE)
    paths = [log_directory / name for name in names]
    paths += [
        directory / LEADER_EPOCH_FILE for directory in partition_directories(log_directory, chance)
    ]
    damaged = [path for path in paths if path.exists()]
    for path in damaged:
        _spoil(path, chance)
    return damaged


def damage_snapshots(log_directory: Path, chance: random.Random) -> list[Path]:
    """Spoil the snapshots of what partitions know of their producers."""
    damaged = [
        snapshot
        for directory in partition_directories(log_directory, chance)
        for snapshot in sorted(directory.glob(f"*{SNAPSHOT_SUFFIX}"))
    ]
    for snapshot in damaged:
        _spoil(snapshot, chance)
    return damaged
