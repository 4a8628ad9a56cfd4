"""What is damaged in a log directory, and what is left alone."""

import random
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from tierlog.bench.harness.faults.damaged_files import (
    Damage,
    append_garbage,
    damage_checkpoints,
    damage_indexes,
    damage_snapshots,
    flip_bytes,
    truncate_segments,
)
from tierlog.bench.harness.processes.cluster import METADATA_LOG
from tierlog.storage.checkpoint import MalformedCheckpointError, read_offset_checkpoint
from tierlog.storage.files import OsFiles

CLOSED, ACTIVE = f"{0:020d}", f"{100:020d}"
CHECKPOINT = "0\n2\norders 0 100\norders 1 90\n"
NAMES = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")
DAMAGES: Mapping[str, Damage] = {
    each.__name__: each
    for each in (
        append_garbage,
        damage_checkpoints,
        damage_indexes,
        damage_snapshots,
        flip_bytes,
        truncate_segments,
    )
}


def log_directory(tmp_path: Path) -> Path:
    """Four partitions of two segments each, and the log of the metadata quorum."""
    for name in ("orders-0", "orders-1", "orders-2", "__consumer_offsets-0", METADATA_LOG):
        directory = tmp_path / name
        directory.mkdir(parents=True)
        for base in (CLOSED, ACTIVE):
            (directory / f"{base}.log").write_bytes(random.Random(1).randbytes(4000))
            (directory / f"{base}.index").write_bytes(bytes(80))
            (directory / f"{base}.timeindex").write_bytes(bytes(120))
            (directory / f"{base}.txnindex").write_bytes(bytes(34))
        (directory / f"{ACTIVE}.snapshot").write_bytes(bytes(100))
        (directory / "leader-epoch-checkpoint").write_text("0\n1\n3 1234567\n")
    for name in NAMES:
        (tmp_path / name).write_text(CHECKPOINT)
    (tmp_path / "meta.properties").write_text("node.id=1\n")
    return tmp_path


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", DAMAGES)
def test_some_files_are_damaged_and_all_of_them_are_named(tmp_path: Path, name: str) -> None:
    for seed in range(20):
        directory = log_directory(tmp_path / str(seed))
        before = contents(directory)
        named = DAMAGES[name](directory, random.Random(seed))
        after = contents(directory)
        changed = {path for path in before if after.get(path) != before[path]}
        assert changed
        assert changed <= set(named)
        assert set(after) <= set(before)
        for path in changed:
            assert METADATA_LOG not in path.parts, "a quorum's promises stay"
            assert path.name != "meta.properties"
            assert path.name != f"{CLOSED}.log", "nobody reads closed segments at a start"


@pytest.mark.parametrize("name", DAMAGES)
def test_the_same_seed_damages_the_same(tmp_path: Path, name: str) -> None:
    results: list[dict[str, bytes]] = []
    for number in range(2):
        directory = log_directory(tmp_path / str(number))
        DAMAGES[name](directory, random.Random(7))
        results.append(
            {str(path.relative_to(directory)): each for path, each in contents(directory).items()}
        )
    assert results[0] == results[1]


@pytest.mark.parametrize("name", DAMAGES)
def test_an_empty_directory_has_nothing_to_damage(tmp_path: Path, name: str) -> None:
    assert DAMAGES[name](tmp_path, random.Random(1)) == []


def test_a_damaged_checkpoint_never_passes_for_another_that_is_whole(tmp_path: Path) -> None:
    for seed in range(40):
        directory = log_directory(tmp_path / str(seed))
        damage_checkpoints(directory, random.Random(seed))
        for name in NAMES:
            try:
                offsets = read_offset_checkpoint(OsFiles(), str(directory / name))
            except MalformedCheckpointError:
                continue
            assert offsets == {}


def test_no_byte_is_flipped_that_the_checksum_of_a_batch_does_not_cover(tmp_path: Path) -> None:
    batches = [struct.pack(">qii", at, 60, 7) + bytes(56) for at in range(20)]
    segment = tmp_path / "orders-0" / f"{ACTIVE}.log"
    segment.parent.mkdir()
    for seed in range(100):
        segment.write_bytes(b"".join(batches))
        assert flip_bytes(tmp_path, random.Random(seed)) == [segment]
        flipped = segment.read_bytes()
        assert flipped != b"".join(batches)
        for at, batch in enumerate(batches):
            there = flipped[at * 72 : at * 72 + 72]
            assert (there[:8], there[12:16]) == (batch[:8], batch[12:16])
