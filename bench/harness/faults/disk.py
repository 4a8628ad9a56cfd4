"""Faults of the disk under a node: it is full, or fails calls with EIO, or is slow.

As a broker of Kafka, one of ours takes the directory offline at the first call that fails, and
ends, because it has no other. What it acknowledged is on the other replicas in sync, so the fault
is over once the node was started again, on a disk that works, and has caught up. A call that fails
in the middle of an answer to a client (`sendfile`) only closes the client's connection, and is
logged: a node that goes on after such errors is restarted, as its operator would do.

The disk fails for the process only: what was written before an fsync that failed is still in the
page cache, and on the disk later. A power cut that loses it needs a virtual machine.
"""

import errno
from collections.abc import Sequence
from dataclasses import dataclass

from ..processes.cluster import ClusterNode
from .disk_control import (
    CREATE,
    MILLION,
    READ,
    SYNC,
    TRUNCATE,
    WRITE,
    DiskControl,
    prepare_disk,
)
from .fault import Act, Fault, Grounds, Nodes, to_one
from .process import bring_down, wait_until_ended
from .shim import missing_compiler

_ENDS_WITHIN_S = 60.0
_HIT_WITHIN_S = 30.0
_POLL_S = 0.1
_DELAY_US = 200_000


class StillRunningError(Exception):
    """A broker goes on although its only disk has failed."""


def _wait_until_hit(grounds: Grounds, disk: DiskControl) -> None:
    """Wait until at least one call has failed, or nothing has used the disk for long."""
    left = _HIT_WITHIN_S
    while not disk.hits and left > 0 and not grounds.wait(_POLL_S):
        left -= _POLL_S


@dataclass(frozen=True, slots=True)
class Failing:
    """Calls of some kinds fail until the broker has ended, or the time is over."""

    calls: int
    error: int
    per_million: int = MILLION
    ends_the_broker: bool = True
    """Whether no broker may go on after one of these calls has failed."""

    def __call__(self, grounds: Grounds, nodes: Nodes, lasts_s: float) -> None:
        """Raises StillRunningError, after the node was started again."""
        node = grounds.cluster.nodes[nodes[0]]
        disk = DiskControl.of(node)
        disk.fail(self.calls, self.error, per_million=self.per_million)
        try:
            has_ended = wait_until_ended(grounds, node, lasts_s)
            _wait_until_hit(grounds, disk)
            if disk.hits and self.ends_the_broker and not has_ended:
                has_ended = wait_until_ended(grounds, node, _ENDS_WITHIN_S)
        finally:
            disk.mend()
        hits = disk.hits
        goes_on = self.ends_the_broker and hits > 0 and not has_ended and not grounds.wait(0)
        if hits > 0 and not has_ended:
            # It may be about to end, which takes seconds; otherwise its operator restarts it.
            bring_down(node, cleanly=not goes_on)
        if not node.is_alive():
            node.spawn()
        if goes_on:
            raise StillRunningError(
                f"Node {node.node_id} went on for {_ENDS_WITHIN_S:g} s after its disk had failed "
                f"{hits} calls with {errno.errorcode[self.error]}."
            )


@to_one
def _slow(grounds: Grounds, node: ClusterNode, lasts_s: float) -> None:
    disk = DiskControl.of(node)
    disk.slow(READ | WRITE | SYNC, _DELAY_US, per_million=MILLION // 10)
    try:
        grounds.wait(lasts_s)
    finally:
        disk.mend()


def _on_disk(name: str, says: str, act: Act) -> Fault:
    return Fault(
        name, says, act, is_alone=act is not _slow, missing=missing_compiler, prepare=prepare_disk
    )


DISK_FAULTS: Sequence[Fault] = (
    _on_disk(
        "disk_full",
        "Writes fail with ENOSPC until the broker has ended; it starts again with space.",
        Failing(WRITE | CREATE, errno.ENOSPC),
    ),
    _on_disk(
        "disk_read_error",
        "One read in four fails with EIO.",
        Failing(READ, errno.EIO, MILLION // 4, ends_the_broker=False),
    ),
    _on_disk(
        "disk_write_error",
        "One write in 50 fails with EIO until the broker has ended.",
        Failing(WRITE | TRUNCATE, errno.EIO, MILLION // 50),
    ),
    _on_disk(
        "disk_sync_error",
        "fsync fails with EIO until the broker has ended.",
        Failing(SYNC, errno.EIO),
    ),
    _on_disk("disk_slow", "One call in ten to the disk takes 0.2 s longer.", _slow),
)
