"""Appends of a coordinator's shards to their topic, with ordered outcomes.

Each decision is one batch. A partition's outcomes arrive in the order of its appends (Kafka's
`CoordinatorRuntime`, write operations).

That a partition cannot be written is logged once, and once more when it can be written again:
its groups, or transactional ids, may be thousands, and each of them tries again.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ...clients.errors import ErrorCode
from ...clients.record.builder import RecordBatchBuilder
from .late_writes import LateWrite, LateWrites
from .led_shards import CoordinatorShard, LedShards
from .offsets_log import UNAVAILABLE, Appended, OffsetsLog, append_error_to_client

_log = logging.getLogger(__name__)

S = TypeVar("S", bound=CoordinatorShard)

OnAppended = Callable[[Appended], None]


class ShardWriter(Generic[S]):
    """Appends for shards that this broker leads."""

    def __init__(self, log: OffsetsLog, shards: LedShards[S]) -> None:
        self._log = log
        self._shards = shards
        # The newest append of each partition, until its outcome arrives.
        self._last_writes: dict[int, asyncio.Future[Appended]] = {}
        self._late = LateWrites(log, shards)
        self._unwritable: set[int] = set()

    def append(
        self,
        shard: S,
        records: Sequence[tuple[bytes, bytes | None]],
        now_ms: int,
        on_appended: OnAppended,
        on_late: Callable[[int], None] | None = None,
    ) -> asyncio.Future[Appended] | None:
        """Append the records, each a key and a value, as one batch: see `append_batch`."""
        builder = RecordBatchBuilder()
        for key, value in records:
            builder.append(now_ms, key, value)
        return self.append_batch(shard, builder.build(), on_appended, on_late)

    def append_batch(
        self,
        shard: S,
        batch: bytearray,
        on_appended: OnAppended,
        on_late: Callable[[int], None] | None = None,
    ) -> asyncio.Future[Appended] | None:
        """Append a batch and call `on_appended` with the outcome.

        Returns None if `on_appended` has already been called, else a future that calls it when
        done. The error is NOT_LEADER_OR_FOLLOWER if the broker has resigned meanwhile.

        A write whose outcome was REQUEST_TIMED_OUT may be replicated later: `on_late` is then
        called with the offset of its first record.
        """
        outcome = self._log.append(shard.partition, batch)
        if isinstance(outcome, Appended):
            self._tell(shard, outcome, on_appended, on_late)
            return None

        def done(future: asyncio.Future[Appended]) -> None:
            if self._last_writes.get(shard.partition) is future:
                del self._last_writes[shard.partition]
            lost = Appended(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            told = lost if future.cancelled() else future.result()
            self._tell(shard, told, on_appended, on_late)

        self._last_writes[shard.partition] = outcome
        outcome.add_done_callback(done)
        return outcome

    def _tell(
        self,
        shard: S,
        appended: Appended,
        on_appended: OnAppended,
        on_late: Callable[[int], None] | None,
    ) -> None:
        if not self._shards.is_led(shard):
            # After a resignation the new leader decides what is in the log.
            on_appended(Appended(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        error = appended.error
        if not error:
            # Everything before it is replicated, too, and comes first.
            self._late.settle(shard)
        self._note(shard.partition, error)
        on_appended(appended)
        if error is ErrorCode.REQUEST_TIMED_OUT:
            self._late.add(shard, LateWrite(appended.base_offset, on_late or _nothing))

    def _note(self, partition: int, error: ErrorCode) -> None:
        """Log when a partition becomes unwritable, and when it is writable again."""
        if error in UNAVAILABLE:
            if partition not in self._unwritable:
                self._unwritable.add(partition)
                _log.warning(
                    "The %s of %s-%d cannot be written: %s. Clients are told to try again.",
                    self._shards.content,
                    self._shards.topic,
                    partition,
                    error.name,
                )
        elif not error and partition in self._unwritable:
            self._unwritable.discard(partition)
            _log.info(
                "The %s of %s-%d can be written again.",
                self._shards.content,
                self._shards.topic,
                partition,
            )

    def close(self) -> None:
        """Wait no longer for replicas."""
        self._late.close()

    def after_writes(self, shard: S, then: Callable[[ErrorCode], None]) -> None:
        """Call `then` once every append so far is replicated: now, or later.

        An answer without a write may still depend on records that are not yet replicated. The error
        is COORDINATOR_NOT_AVAILABLE if they are not in time, NOT_COORDINATOR after a resignation.
        """
        last = self._last_writes.get(shard.partition)
        if last is None:
            self._after_late_writes(shard, then)
            return

        def done(_: object) -> None:
            if not self._shards.is_led(shard):
                then(ErrorCode.NOT_COORDINATOR)
            elif self._late.newest(shard) is not None:
                then(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                then(ErrorCode.NONE)

        last.add_done_callback(done)

    def after_outcomes(self, shard: S, then: Callable[[], None]) -> None:
        """Call `then` once what was appended so far has taken effect, as far as it is replicated:
        now, or later, and not after a resignation.
        """

        def done(_: object) -> None:
            if self._shards.is_led(shard):
                self._late.settle(shard)
                then()

        last = self._last_writes.get(shard.partition)
        if last is None:
            done(None)
        else:
            last.add_done_callback(done)

    def _after_late_writes(self, shard: S, then: Callable[[ErrorCode], None]) -> None:
        newest = self._late.newest(shard)
        if newest is None:
            then(ErrorCode.NONE)
            return
        replicated = self._log.when_replicated(shard.partition, newest + 1)
        if not isinstance(replicated, asyncio.Future):
            then(append_error_to_client(replicated))
            return

        def done(answer: asyncio.Future[ErrorCode]) -> None:
            self._late.settle(shard)
            is_led = self._shards.is_led(shard) and not answer.cancelled()
            error = answer.result() if is_led else ErrorCode.NOT_LEADER_OR_FOLLOWER
            then(append_error_to_client(error))

        replicated.add_done_callback(done)


def _nothing(_: int) -> None:
    """What a late write does that took effect when it was appended."""
