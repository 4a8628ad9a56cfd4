"""Writes of a coordinator that were answered as timed out, and that replicas may have later.

Their clients were told to try again, but the records are in the log. They take effect when the
high watermark passes them, and not before: until then a failover may lose them, and nobody must
have seen them. If this broker no longer leads, the next leader reads them from the log, or not.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from ...clients.errors import ErrorCode, KafkaError
from .led_shards import CoordinatorShard, LedShards
from .offsets_log import OffsetsLog
from .replication_wait import ReplicationWait

S = TypeVar("S", bound=CoordinatorShard)

LATE_WRITES_MAX = 10_000
"""How many late writes of a partition may wait; the oldest take effect early above it."""


class LateWrite(NamedTuple):
    """A batch at `base_offset`, and what it does once it is replicated."""

    base_offset: int
    take_effect: Callable[[int], None]


class LateWrites(Generic[S]):
    """The late writes of all shards of one coordinator, in the order of their logs."""

    def __init__(
        self, log: OffsetsLog, shards: LedShards[S], writes_max: int = LATE_WRITES_MAX
    ) -> None:
        self._log = log
        self._shards = shards
        self._writes_max = writes_max
        self._waiting: dict[S, deque[LateWrite]] = {}
        self._waits: dict[S, ReplicationWait] = {}

    def add(self, shard: S, write: LateWrite) -> None:
        """Let a write take effect when the high watermark has passed it."""
        writes = self._waiting.setdefault(shard, deque())
        writes.append(write)
        if len(writes) > self._writes_max:
            oldest = writes.popleft()
            oldest.take_effect(oldest.base_offset)
        if shard not in self._waits:
            self._wait(shard, writes[0].base_offset)

    def newest(self, shard: S) -> int | None:
        """The base offset of the newest late write; None if the replicas have all of them."""
        self.settle(shard)
        writes = self._waiting.get(shard)
        return writes[-1].base_offset if writes else None

    def settle(self, shard: S) -> None:
        """Let what is below the high watermark now take effect, before anything that follows it."""
        writes = self._waiting.get(shard)
        if writes is None:
            return
        try:
            end = self._log.high_watermark(shard.partition)
        except KafkaError:
            self._drop(shard)
            return
        while writes and writes[0].base_offset < end:
            write = writes.popleft()
            write.take_effect(write.base_offset)
        if not writes:
            self._drop(shard)

    def close(self) -> None:
        """Forget all of them: the next load reads them from the log."""
        for shard in list(self._waiting):
            self._drop(shard)

    def _wait(self, shard: S, base_offset: int) -> None:
        def replicated(error: ErrorCode) -> None:
            self._waits.pop(shard, None)
            if error or not self._shards.is_led(shard):
                self._drop(shard)
                return
            self.settle(shard)
            if writes := self._waiting.get(shard):
                self._wait(shard, writes[0].base_offset)

        wait = self._waits[shard] = ReplicationWait(
            self._log, shard.partition, base_offset + 1, replicated
        )
        wait.start()

    def _drop(self, shard: S) -> None:
        self._waiting.pop(shard, None)
        wait = self._waits.pop(shard, None)
        if wait is not None:
            wait.cancel()
