"""Appends of a coordinator's shards to their topic, with ordered outcomes.

Each decision is one batch. A partition's outcomes arrive in the order of its appends (Kafka's
`CoordinatorRuntime`, write operations).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ...clients.errors import ErrorCode
from ...clients.record.builder import RecordBatchBuilder
from .led_shards import CoordinatorShard, LedShards
from .offsets_log import Appended, OffsetsLog

S = TypeVar("S", bound=CoordinatorShard)


class ShardWriter(Generic[S]):
    """Appends for shards that this broker leads."""

    def __init__(self, log: OffsetsLog, shards: LedShards[S]) -> None:
        self._log = log
        self._shards = shards
        # The newest append of each partition, until its outcome arrives.
        self._last_writes: dict[int, asyncio.Future[Appended]] = {}

    def append(
        self,
        shard: S,
        records: Sequence[tuple[bytes, bytes | None]],
        now_ms: int,
        on_appended: Callable[[Appended], None],
    ) -> asyncio.Future[Appended] | None:
        """Append the records, each a key and a value, as one batch: see `append_batch`."""
        builder = RecordBatchBuilder()
        for key, value in records:
            builder.append(now_ms, key, value)
        return self.append_batch(shard, builder.build(), on_appended)

    def append_batch(
        self, shard: S, batch: bytearray, on_appended: Callable[[Appended], None]
    ) -> asyncio.Future[Appended] | None:
        """Append a batch and call `on_appended` with the outcome.

        Returns None if `on_appended` has already been called, else a future that calls it when
        done. The error is NOT_LEADER_OR_FOLLOWER if the broker has resigned meanwhile.
        """
        outcome = self._log.append(shard.partition, batch)
        if isinstance(outcome, Appended):
            on_appended(self._outcome(shard, outcome))
            return None

        def done(future: asyncio.Future[Appended]) -> None:
            if self._last_writes.get(shard.partition) is future:
                del self._last_writes[shard.partition]
            cancelled = Appended(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            on_appended(cancelled if future.cancelled() else self._outcome(shard, future.result()))

        self._last_writes[shard.partition] = outcome
        outcome.add_done_callback(done)
        return outcome

    def _outcome(self, shard: S, appended: Appended) -> Appended:
        # After a resignation the new leader decides what is in the log.
        is_led = self._shards.is_led(shard)
        return appended if is_led else Appended(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def after_writes(self, shard: S, then: Callable[[ErrorCode], None]) -> None:
        """Call `then` once every append so far has an outcome: now, or later.

        An answer without a write may still depend on records that are not yet replicated.
        """
        last = self._last_writes.get(shard.partition)
        if last is None:
            then(ErrorCode.NONE)
            return

        def done(_: object) -> None:
            then(ErrorCode.NONE if self._shards.is_led(shard) else ErrorCode.NOT_COORDINATOR)

        last.add_done_callback(done)
