"""Appends of a coordinator's shards to their topic, with ordered outcomes.

Each decision is one batch. A partition's outcomes arrive in the order of its appends (Kafka's
`CoordinatorRuntime`, write operations).

That a partition cannot be written is logged once, and once more when it can be written again:
its groups, or transactional ids, may be thousands, and each of them tries again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from ..clients.errors import ErrorCode, KafkaError
from ..clients.record.builder import RecordBatchBuilder
from .led_shards import CoordinatorShard, LedShards
from .offsets_log import UNAVAILABLE, Appended, OffsetsLog, ReplicationWait, append_error_to_client
from .result_or_future import settled_by

_log = logging.getLogger(__name__)

S = TypeVar("S", bound=CoordinatorShard)

LATE_WRITES_MAX = 10_000
"""How many late writes of a partition may wait; the oldest take effect early above it."""

LATE_BYTES_MAX = 32 << 20
"""Bytes of all late writes; above it, the oldest of the partition with the most take effect early.

Those that wait to take effect keep their offsets in memory, a few times as much."""

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
        late = LateWrite(-1) if on_late is None else LateWrite(-1, on_late, len(batch))
        outcome = self._log.append(shard.partition, batch)
        earlier = self._last_writes.get(shard.partition)
        if isinstance(outcome, Appended) and not outcome.error and earlier is not None:
            # Those before it are replicated, too, but complete in a later turn.
            replicated = outcome
            outcome = settled_by(earlier, lambda _: replicated)
        if isinstance(outcome, Appended):
            self._complete(shard, outcome, on_appended, late)
            return None

        def done(future: asyncio.Future[Appended]) -> None:
            if self._last_writes.get(shard.partition) is future:
                del self._last_writes[shard.partition]
            lost = Appended(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            appended = lost if future.cancelled() else future.result()
            self._complete(shard, appended, on_appended, late)

        self._last_writes[shard.partition] = outcome
        outcome.add_done_callback(done)
        return outcome

    def _complete(
        self, shard: S, appended: Appended, on_appended: OnAppended, late: "LateWrite"
    ) -> None:
        if not self._shards.is_led(shard):
            # After a resignation the new leader decides what is in the log.
            self._unwritable.discard(shard.partition)
            on_appended(Appended(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        error = appended.error
        if not error:
            # Everything before it is replicated, too, and comes first.
            self._late.settle(shard)
        if error or self._unwritable:
            self._note(shard.partition, error)
        on_appended(appended)
        if error is ErrorCode.REQUEST_TIMED_OUT:
            self._late.add(shard, late._replace(base_offset=appended.base_offset))

    def _note(self, partition: int, error: ErrorCode) -> None:
        """Log when a partition becomes unwritable, and when it is writable again."""
        if error in UNAVAILABLE:
            if partition not in self._unwritable:
                self._unwritable.add(partition)
                _log.warning(
                    "The %s of %s-%d cannot be written: %s. Clients have to retry.",
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


class LateWrite(NamedTuple):
    """A batch at `base_offset`, what it does once it is replicated, and the bytes kept for that."""

    base_offset: int
    take_effect: Callable[[int], None] = _nothing
    nbytes: int = 0


class LateWrites(Generic[S]):
    """The writes of all shards that were answered as timed out, in the order of their logs.

    Their clients got a retriable error, but the records are in the log. They take effect when the
    high watermark passes them, and not before: until then a failover may lose them, and nobody must
    have seen them. If this broker no longer leads, the next leader reads them from the log, or not.
    """

    def __init__(
        self,
        log: OffsetsLog,
        shards: LedShards[S],
        writes_max: int = LATE_WRITES_MAX,
        bytes_max: int = LATE_BYTES_MAX,
    ) -> None:
        self._log = log
        self._shards = shards
        self._writes_max = writes_max
        self._bytes_max = bytes_max
        self._bytes: dict[S, int] = {}
        self._waiting: dict[S, deque[LateWrite]] = {}
        self._waits: dict[S, ReplicationWait] = {}

    def add(self, shard: S, write: LateWrite) -> None:
        """Let a write take effect when the high watermark has passed it."""
        writes = self._waiting.setdefault(shard, deque())
        writes.append(write)
        self._bytes[shard] = self._bytes.get(shard, 0) + write.nbytes
        if len(writes) > self._writes_max:
            self._take_oldest_early(shard)
        if shard not in self._waits:
            self._wait(shard, writes[0].base_offset)
        while sum(self._bytes.values()) > self._bytes_max:
            self._take_oldest_early(max(self._bytes, key=self._bytes.__getitem__))

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
            self._bytes[shard] -= write.nbytes
            write.take_effect(write.base_offset)
        if not writes:
            self._drop(shard)

    def _take_oldest_early(self, shard: S) -> None:
        """Let the oldest take effect; if it is also the newest, answers still wait for it."""
        writes = self._waiting[shard]
        write = writes.popleft()
        self._bytes[shard] -= write.nbytes
        if not writes:
            writes.append(LateWrite(write.base_offset))
        write.take_effect(write.base_offset)

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
        self._bytes.pop(shard, None)
        wait = self._waits.pop(shard, None)
        if wait is not None:
            wait.cancel()
