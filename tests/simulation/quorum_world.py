"""What the nodes of a simulated quorum share: clocks, faults of disks, witnesses, state machines.

The core sees the process's monotonic clock: it has an origin and a rate of its own, and may leap.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tierlog.clients.errors import ErrorCode
from tierlog.replication.raft.raft import RaftCore
from tierlog.replication.raft.raft_actions import Action
from tierlog.replication.raft.raft_messages import RaftResponse

from .quorum_log import EMPTY_DIGEST, Batch, Snapshot, fold
from .quorum_network import EventQueue, Exchange, QuorumNetwork

if TYPE_CHECKING:
    from .quorum_node import QuorumNode


class DiskError(Exception):
    """The disk fails; the text is the kind of the fault."""


@dataclass(slots=True)
class DiskFaults:
    """What the disk of one node does next; each failure strikes once."""

    persist_delay_ms: float = 0.0
    flush_delay_ms: float = 0.0
    fail_persist: bool = False
    fail_flush: bool = False
    is_full: bool = False
    """No append and no `quorum-state` can be written."""

    def recover(self) -> None:
        """Be a good disk again."""
        self.persist_delay_ms = self.flush_delay_ms = 0.0
        self.fail_persist = self.fail_flush = self.is_full = False


class MonotonicClock:
    """A process's milliseconds: an origin, a rate near 1, and leaps forward."""

    def __init__(self, queue: EventQueue, chance: random.Random) -> None:
        self._queue = queue
        self._rate = chance.uniform(0.98, 1.02)
        self._origin = float(chance.randrange(1 << 40))

    def now_ms(self) -> int:
        """The time that the core sees."""
        return int(self._origin + self._queue.now * self._rate)

    def leap(self, by_ms: float) -> None:
        """Let the clock go on so much later, as after a suspended machine."""
        self._origin += by_ms

    def delay_until(self, deadline_ms: int) -> float:
        """How long until this clock shows a time, in milliseconds of virtual time."""
        return max(0.0, (deadline_ms - self._origin) / self._rate - self._queue.now) + 0.01


class Witness(Protocol):
    """Who watches what a node does: `quorum_invariants.py`."""

    def before_action(self, node: "QuorumNode", action: Action) -> None: ...

    def after_action(self, node: "QuorumNode", action: Action) -> None: ...

    def after_event(self, node: "QuorumNode") -> None: ...

    def on_request(self, node: "QuorumNode", exchange: Exchange) -> None: ...

    def on_response(self, node: "QuorumNode", request_id: int, response: RaftResponse) -> None: ...

    def on_failure(self, node: "QuorumNode", request_id: int, error: ErrorCode) -> None: ...

    def on_log_lost(self, node: "QuorumNode") -> None: ...

    def on_snapshot(self, node: "QuorumNode", snapshot: Snapshot) -> None: ...


class Machine(Protocol):
    """What a node makes of committed batches: the state of the whole cluster."""

    @property
    def state(self) -> object:
        """What is the same on all nodes that have applied the same batches."""
        ...

    def restore(self, content: bytes) -> None:
        """Begin with the state that a snapshot holds; with none if that is `EMPTY_DIGEST`."""
        ...

    def apply(self, batch: Batch) -> None:
        """Take a committed batch."""
        ...

    def freeze(self) -> bytes:
        """The content of a snapshot of the present state."""
        ...

    def lead(self, epoch: int) -> None:
        """This node leads, and everything before its epoch is applied. May append."""
        ...

    def renounce(self) -> None:
        """This node does not lead, or no longer."""
        ...

    def end(self) -> None:
        """The process has died."""
        ...


class Fold:
    """A state that depends on every batch, and on their order."""

    def __init__(self, _: "QuorumNode") -> None:
        self.state = EMPTY_DIGEST

    def restore(self, content: bytes) -> None:
        """See `Machine`."""
        self.state = content

    def apply(self, batch: Batch) -> None:
        """See `Machine`."""
        if not batch.is_control:
            self.state = fold(self.state, batch.payload)

    def freeze(self) -> bytes:
        """See `Machine`."""
        return self.state

    def lead(self, epoch: int) -> None:
        """It writes nothing of its own."""

    def renounce(self) -> None:
        """It has nothing to take back."""

    def end(self) -> None:
        """It has nothing to lose."""


@dataclass(slots=True)
class World:
    """What all nodes of one story share."""

    queue: EventQueue
    network: QuorumNetwork
    chance: random.Random
    counts: Counter[str]
    witness: Witness
    core: type[RaftCore] = RaftCore
    machine: "Callable[[QuorumNode], Machine]" = Fold
