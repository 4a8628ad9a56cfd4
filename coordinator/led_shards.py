"""Loads and unloads the state of the partitions of a coordinator's topic that this broker leads.

Groups are in `__consumer_offsets` and transactional ids in `__transaction_state`; both are loaded
and unloaded in the same way. When this broker becomes leader of a partition, its log is read in
chunks before its groups or ids are served; when it resigns, the partition's state is dropped
(Kafka's `CoordinatorRuntime` and its loader).

Nothing is served before the high watermark has come to the end of what was read: a client must not
see an offset, nor a partition a marker, that the next failover may undo. Kafka serves at once, its
groups from what is below the high watermark and its transactional ids from all.

A record that cannot be decoded is skipped and logged; the other groups or transactional ids of its
partition are still served. Any other failure, an unexpected one too, fails the shard, and its state
is dropped: requests are answered NOT_COORDINATOR until an election in a newer epoch loads it again.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from enum import Enum
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from ..clients.errors import ErrorCode, KafkaError
from ..clients.record.batch import Record, RecordBatch, batches
from ..clients.runtime.steps import finished
from ..clients.skipped_records import SkippedRecords
from .offsets_log import OffsetsLog, ReplicationWait

_log = logging.getLogger(__name__)

_RECORDS_PER_TURN = 4096
"""Records to apply before other tasks run. One batch may have a hundred times as many."""

Skip = Callable[[int, Exception], None]
"""Called with the offset of a skipped record or batch, and the reason."""


class ShardState(Enum):
    """Whether a led partition can be served."""

    LOADING = "its log is being read"
    ACTIVE = "served"
    FAILED = "it could not be loaded"


class ShardEvent(Enum):
    """An event of a led partition."""

    LOADED = "its log was read to the end, and the high watermark is there"
    LOAD_FAILED = "it could not be loaded"


# Any other event in a state is a programming error.
TRANSITIONS: dict[tuple[ShardState, ShardEvent], ShardState] = {
    (ShardState.LOADING, ShardEvent.LOADED): ShardState.ACTIVE,
    (ShardState.LOADING, ShardEvent.LOAD_FAILED): ShardState.FAILED,
}

SHARD_ERRORS: dict[ShardState, ErrorCode] = {
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.ACTIVE: ErrorCode.NONE,
    ShardState.FAILED: ErrorCode.NOT_COORDINATOR,
}


class CoordinatorShard(ABC):
    """The state of one led partition, built from its log."""

    def __init__(self, partition: int, leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.state = ShardState.LOADING

    def apply(self, event: ShardEvent) -> None:
        """Change the state according to `TRANSITIONS`; other events are programming errors."""
        self.state = TRANSITIONS[self.state, event]

    def replay(self, batch: RecordBatch) -> None:
        """Apply one batch. Raises KafkaError for an invalid record."""
        finished(self.replay_steps(batch, _raise))

    def replay_steps(self, batch: RecordBatch, skip: Skip) -> Generator[None]:
        """Apply one batch, with pauses."""
        offset = batch.base_offset
        try:
            if batch.is_control:
                self.replay_marker(batch)
                return
            records = yield from batch.record_steps()
            for number, record in enumerate(records, 1):
                offset = record.offset
                try:
                    self.replay_record(batch, record)
                except Exception as error:
                    skip(offset, error)
                if not number % _RECORDS_PER_TURN:
                    yield
        except KafkaError as error:
            # The rest of the batch cannot be split into records.
            skip(offset, error)

    @abstractmethod
    def replay_marker(self, batch: RecordBatch) -> None:
        """Apply a control batch. Raises KafkaError."""

    @abstractmethod
    def replay_record(self, batch: RecordBatch, record: Record) -> None:
        """Apply one record of a batch. Raises KafkaError."""


def _raise(_: int, error: Exception) -> None:
    raise error


S = TypeVar("S", bound=CoordinatorShard)


class ShardLog(NamedTuple):
    """The topic that shards are loaded from; log messages call its content `content`."""

    log: OffsetsLog
    topic: str
    content: str
    load_buffer_size: int


class LedShards(Generic[S]):
    """The shards of the led partitions.

    `on_loaded` is called when a shard can be served, `on_lost` when it is no longer led.
    """

    def __init__(
        self,
        source: ShardLog,
        new_shard: Callable[[int, int], S],
        on_loaded: Callable[[S], None],
        on_lost: Callable[[S], None],
    ) -> None:
        self._source = source
        self._new_shard = new_shard
        self._on_loaded = on_loaded
        self._on_lost = on_lost
        self._shards: dict[int, S] = {}
        self._loading: dict[int, asyncio.Handle | ReplicationWait] = {}
        self.skipped = SkippedRecords(source.topic, f"Its change to the {source.content} is lost")

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """Load a partition that this broker now leads, then serve it."""
        previous = self._shards.get(partition)
        if previous is not None and previous.leader_epoch == leader_epoch:
            return
        self.on_resigned(partition)
        shard = self._new_shard(partition, leader_epoch)
        self._shards[partition] = shard
        self._load(shard, self._replay(shard))

    def on_resigned(self, partition: int) -> None:
        """Drop a partition that this broker no longer leads."""
        handle = self._loading.pop(partition, None)
        if handle is not None:
            handle.cancel()
        shard = self._shards.pop(partition, None)
        if shard is not None:
            self._on_lost(shard)

    def close(self) -> None:
        """Resign from all partitions."""
        for partition in list(self._shards):
            self.on_resigned(partition)

    def _load(self, shard: S, steps: Generator[None, None, int]) -> None:
        """Load up to the next pause, then let other tasks run."""
        self._loading.pop(shard.partition, None)
        try:
            next(steps)
        except StopIteration as read:
            self._await_commit(shard, read.value)
        except Exception as error:
            self._load_failed(shard, error)
        else:
            loop = asyncio.get_running_loop()
            self._loading[shard.partition] = loop.call_soon(self._load, shard, steps)

    def _await_commit(self, shard: S, end: int) -> None:
        """Serve the shard once the high watermark has come to the end of what it was read from."""

        def on_replicated(error: ErrorCode) -> None:
            self._loading.pop(shard.partition, None)
            if error:
                message = "This broker no longer leads the partition"
                self._load_failed(shard, KafkaError(error, message))
            else:
                self._complete_load(shard)

        wait = ReplicationWait(self._source.log, shard.partition, end, on_replicated)
        self._loading[shard.partition] = wait
        wait.start()

    def _complete_load(self, shard: S) -> None:
        shard.apply(ShardEvent.LOADED)
        try:
            self._on_loaded(shard)
        except Exception as error:
            self._load_failed(shard, error)

    def _replay(self, shard: S) -> Generator[None, None, int]:
        """Replay the log, a chunk at a time; returns the offset after the last one read."""
        position, end = self._source.log.offsets(shard.partition)
        skip = partial(self._skip, shard.partition)
        while position < end:
            size = self._source.load_buffer_size
            next_position = position
            for batch in batches(self._source.log.read(shard.partition, position, size)):
                # A damaged batch must not affect other groups or transactional ids.
                if batch.crc_is_valid():
                    yield from shard.replay_steps(batch, skip)
                else:
                    self._report_damage(shard, batch)
                next_position = batch.next_offset
            # No whole batch was read: compaction has removed the rest.
            position = next_position if next_position > position else end
            if position < end:
                yield
        return position

    def _skip(self, partition: int, offset: int, error: Exception) -> None:
        if isinstance(error, KafkaError):
            self.skipped.skip(partition, offset, f"{error.message.rstrip('.')}.")
        else:
            reason = f"{type(error).__name__}: {error}."
            self.skipped.skip(partition, offset, reason, error)

    def _report_damage(self, shard: S, batch: RecordBatch) -> None:
        _log.error(
            "The log of the %s in %s-%d is damaged at offset %d: skipping the records of that "
            "batch.",
            self._source.content,
            self._source.topic,
            shard.partition,
            batch.base_offset,
        )

    def _load_failed(self, shard: S, cause: Exception) -> None:
        """Answer NOT_COORDINATOR from now on, and drop the state read so far.

        An empty shard takes its place (`CoordinatorRuntime.CoordinatorContext.unload`).
        """
        is_expected = isinstance(cause, KafkaError)
        error = cause if is_expected else repr(cause)
        _log.error(
            "The %s of %s-%d could not be loaded: %s.",
            self._source.content,
            self._source.topic,
            shard.partition,
            error,
            exc_info=None if is_expected else cause,
        )
        failed = self._new_shard(shard.partition, shard.leader_epoch)
        failed.apply(ShardEvent.LOAD_FAILED)
        self._shards[shard.partition] = failed
        self._on_lost(shard)

    # Lookups.

    @property
    def topic(self) -> str:
        """The topic that the shards are loaded from."""
        return self._source.topic

    @property
    def content(self) -> str:
        """What the topic holds, in words."""
        return self._source.content

    def get(self, partition: int) -> S | None:
        """The partition's shard, if this broker leads it."""
        return self._shards.get(partition)

    def all(self) -> list[S]:
        return list(self._shards.values())

    def active(self) -> list[S]:
        return [shard for shard in self._shards.values() if shard.state is ShardState.ACTIVE]

    def is_led(self, shard: S) -> bool:
        """Whether the shard is still led and has not been replaced by a newer one."""
        return self._shards.get(shard.partition) is shard
