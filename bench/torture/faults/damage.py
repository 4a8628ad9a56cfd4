"""Faults of a disk that holds something else than what was written: found when a node starts.

A node is killed, files in its directory are damaged, and it starts again. It is the only one whose
files are damaged until all are in sync again, so of every partition two replicas are whole, and
what it has lost it gets from their leaders. It must not lead before that, and need not start with
what it finds: a node that refuses is started again without the damaged files (Kafka does so for a
checkpoint that it cannot read).
"""

from dataclasses import dataclass
from pathlib import Path
from random import Random

from ....storage.directory.log_dir import CLEAN_SHUTDOWN_FILE
from ...cluster import ClusterNode
from ..fault import Fault, Grounds
from .damaged_files import (
    Damage,
    append_garbage,
    damage_checkpoints,
    damage_indexes,
    damage_snapshots,
    flip_bytes,
    truncate_segments,
)
from .process import bring_down, start_repaired


def remove_marker(log_directory: Path, chance: Random) -> list[Path]:
    """Remove what shows that the last stop was clean: everything is recovered."""
    marker = log_directory / CLEAN_SHUTDOWN_FILE
    marker.unlink(missing_ok=True)
    return [marker]


@dataclass(frozen=True, slots=True)
class FilesDamaged:
    """A node goes down, some of its files are damaged, and it comes back."""

    name: str
    damage: Damage
    cleanly: bool = False
    """Whether it is stopped by SIGTERM, and not killed."""
    is_alone: bool = True

    def missing(self) -> str | None:
        return None

    def prepare(self, node: ClusterNode) -> None:
        pass

    def choose(self, grounds: Grounds) -> tuple[int, ...]:
        return tuple(grounds.free()[:1])

    def act(self, grounds: Grounds, nodes: tuple[int, ...], lasts_s: float) -> None:
        """Raises RefusedStartError."""
        (node,) = (grounds.cluster.nodes[each] for each in nodes)
        bring_down(node, cleanly=self.cleanly)
        damaged: list[Path] = []
        try:
            damaged = self.damage(node.log_directory, grounds.chance)
            grounds.wait(lasts_s)
        finally:
            start_repaired(node, damaged)


DAMAGE_FAULTS: tuple[Fault, ...] = (
    FilesDamaged("damage_segments", flip_bytes),
    FilesDamaged("damage_cut_off", truncate_segments),
    FilesDamaged("damage_torn_write", append_garbage),
    FilesDamaged("damage_indexes", damage_indexes),
    FilesDamaged("damage_checkpoints", damage_checkpoints),
    FilesDamaged("damage_snapshots", damage_snapshots),
    FilesDamaged("damage_marker", remove_marker, cleanly=True),
)
