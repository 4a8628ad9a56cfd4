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
from dataclasses import dataclass

from ...cluster import ClusterNode
from ..fault import Fault, Grounds
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
from .process import bring_down, wait_until_ended
from .shim import missing_compiler

_ENDS_WITHIN_S = 60.0
_HIT_WITHIN_S = 30.0
_POLL_S = 0.1


class StillRunningError(Exception):
    """A broker goes on although its only disk has failed."""


class _OnDisk:
    """What all faults of a disk have in common."""

    def missing(self) -> str | None:
        return missing_compiler()

    def prepare(self, node: ClusterNode) -> None:
        prepare_disk(node)

    def choose(self, grounds: Grounds) -> tuple[int, ...]:
        return tuple(grounds.free()[:1])


def _wait_until_hit(grounds: Grounds, disk: DiskControl) -> None:
    """Wait until at least one call has failed, or nothing has used the disk for long."""
    left = _HIT_WITHIN_S
    while not disk.hits and left > 0 and not grounds.wait(_POLL_S):
        left -= _POLL_S


@dataclass(frozen=True, slots=True)
class DiskFails(_OnDisk):
    """Calls of some kinds fail until the broker has ended, or the time is over."""

    name: str
    calls: int
    error: int
    per_million: int = MILLION
    ends_the_broker: bool = True
    """Whether no broker may go on after one of these calls has failed."""
    is_alone: bool = True

    def act(self, grounds: Grounds, nodes: tuple[int, ...], lasts_s: float) -> None:
        """Raises StillRunningError, after the node was started again."""
        (node,) = (grounds.cluster.nodes[each] for each in nodes)
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
                f"{hits} calls ({self.name})."
            )


@dataclass(frozen=True, slots=True)
class DiskSlow(_OnDisk):
    """A share of the calls takes much longer."""

    name: str = "disk_slow"
    delay_us: int = 200_000
    per_million: int = MILLION // 10
    is_alone: bool = False

    def act(self, grounds: Grounds, nodes: tuple[int, ...], lasts_s: float) -> None:
        (node,) = (grounds.cluster.nodes[each] for each in nodes)
        disk = DiskControl.of(node)
        disk.slow(READ | WRITE | SYNC, self.delay_us, per_million=self.per_million)
        try:
            grounds.wait(lasts_s)
        finally:
            disk.mend()


DISK_FAULTS: tuple[Fault, ...] = (
    DiskFails("disk_full", WRITE | CREATE, errno.ENOSPC),
    DiskFails("disk_read_error", READ, errno.EIO, MILLION // 4, ends_the_broker=False),
    DiskFails("disk_write_error", WRITE | TRUNCATE, errno.EIO, MILLION // 50),
    DiskFails("disk_sync_error", SYNC, errno.EIO),
    DiskSlow(),
)
