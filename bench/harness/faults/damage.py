"""Faults of a disk that holds something else than what was written: found when a node starts.

A node is killed, files in its directory are damaged, and it starts again. It is the only one whose
files are damaged until all are in sync again, so of every partition two replicas are whole, and
what it has lost it gets from their leaders. It must not lead before that, and need not start with
what it finds: a node that refuses is started again without the damaged files (Kafka does so for a
checkpoint that it cannot read).
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from ....storage.directory.log_dir import CLEAN_SHUTDOWN_FILE
from ..processes.cluster import ClusterNode
from .damaged_files import (
    Damage,
    append_garbage,
    damage_checkpoints,
    damage_indexes,
    damage_snapshots,
    flip_bytes,
    truncate_segments,
)
from .fault import Fault, Grounds, to_one
from .process import bring_down, start_repaired


def remove_marker(log_directory: Path, chance: Random) -> list[Path]:
    """Remove what shows that the last stop was clean: everything is recovered."""
    marker = log_directory / CLEAN_SHUTDOWN_FILE
    marker.unlink(missing_ok=True)
    return [marker]


def _damaged(name: str, says: str, damage: Damage, *, cleanly: bool = False) -> Fault:
    """A node goes down, some of its files are damaged, and it comes back.

    With `cleanly` it is stopped by SIGTERM, and not killed. To do it raises RefusedStartError.
    """

    @to_one
    def act(grounds: Grounds, node: ClusterNode, lasts_s: float) -> None:
        bring_down(node, cleanly=cleanly)
        damaged: list[Path] = []
        try:
            damaged = damage(node.log_directory, grounds.chance)
            grounds.wait(lasts_s)
        finally:
            start_repaired(node, damaged)

    return Fault(name, says, act, is_alone=True)


DAMAGE_FAULTS: Sequence[Fault] = (
    _damaged(
        "damage_segments",
        "A killed node starts with bytes flipped in what its log recovers.",
        flip_bytes,
    ),
    _damaged(
        "damage_cut_off",
        "A killed node starts with the end of its active segments cut off.",
        truncate_segments,
    ),
    _damaged(
        "damage_torn_write",
        "A killed node starts with garbage after the end of its active segments.",
        append_garbage,
    ),
    _damaged(
        "damage_indexes",
        "A killed node starts with damaged offset, time and transaction indexes.",
        damage_indexes,
    ),
    _damaged(
        "damage_checkpoints",
        "A killed node starts with damaged checkpoint files.",
        damage_checkpoints,
    ),
    _damaged(
        "damage_snapshots",
        "A killed node starts with damaged producer snapshots.",
        damage_snapshots,
    ),
    _damaged(
        "damage_marker",
        "A node that stopped cleanly starts without the mark that it did.",
        remove_marker,
        cleanly=True,
    ),
)
