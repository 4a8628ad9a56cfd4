"""The partitions of a coordinator's topic that this broker leads, and what their logs make of them.

Groups live in `__consumer_offsets` and transactional ids in `__transaction_state`; how a partition
comes and goes is the same for both. One that is led from now on is read from its log, a stretch at
a time, before anyone in it is served; one that is led no longer is let go (Kafka's
`CoordinatorRuntime` and its loader).
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from ...clients.errors import ErrorCode, KafkaError
from ...clients.record.batch import RecordBatch, batches
from .offsets_log import OffsetsLog

_log = logging.getLogger(__name__)


class ShardState(Enum):
    """Whether a partition can be served. A partition that is not here is not led."""

    LOADING = "its log is being read"
    ACTIVE = "served"
    FAILED = "its log could not be read"


class ShardEvent(Enum):
    """What may happen to a partition while it is led."""

    LOADED = "its log was read to the end"
    LOAD_FAILED = "its log could not be read on"


# What cannot happen in a state is a mistake of ours.
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
    """One led partition: what its log says."""

    def __init__(self, partition: int, leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.state = ShardState.LOADING

    def happened(self, event: ShardEvent) -> None:
        """Move on in `TRANSITIONS`."""
        self.state = TRANSITIONS[self.state, event]

    @abstractmethod
    def replay(self, batch: RecordBatch) -> None:
        """Fold one batch of the log. Raises KafkaError(CORRUPT_MESSAGE)."""


S = TypeVar("S", bound=CoordinatorShard)


class ShardLog(NamedTuple):
    """The topic that shards are read from; `content` is what it holds, as a person calls it."""

    log: OffsetsLog
    topic: str
    content: str
    load_buffer_size: int


class LedShards(Generic[S]):
    """The shards by partition. `on_loaded` and `on_lost` are told of them."""

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
        self._loading: dict[int, asyncio.Handle] = {}

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition now: read its log, then serve it."""
        known = self._shards.get(partition)
        if known is not None and known.leader_epoch == leader_epoch:
            return
        self.on_resigned(partition)
        shard = self._new_shard(partition, leader_epoch)
        self._shards[partition] = shard
        try:
            position, end = self._source.log.offsets(partition)
        except KafkaError as error:
            self._load_failed(shard, error)
            return
        self._load(shard, position, end)

    def on_resigned(self, partition: int) -> None:
        """Another broker leads the partition now, or none."""
        handle = self._loading.pop(partition, None)
        if handle is not None:
            handle.cancel()
        shard = self._shards.pop(partition, None)
        if shard is not None:
            self._on_lost(shard)

    def close(self) -> None:
        """Let go of all of them."""
        for partition in list(self._shards):
            self.on_resigned(partition)

    def _load(self, shard: S, position: int, end: int) -> None:
        """Read one stretch of the log, then let others run before the next."""
        self._loading.pop(shard.partition, None)
        try:
            if position < end:
                size = self._source.load_buffer_size
                next_position = position
                for batch in batches(self._source.log.read(shard.partition, position, size)):
                    shard.replay(batch)
                    next_position = batch.next_offset
                # No whole batch: compaction has taken what was left.
                position = next_position if next_position > position else end
        except KafkaError as error:
            self._load_failed(shard, error)
            return
        if position < end:
            loop = asyncio.get_running_loop()
            self._loading[shard.partition] = loop.call_soon(self._load, shard, position, end)
            return
        shard.happened(ShardEvent.LOADED)
        self._on_loaded(shard)

    def _load_failed(self, shard: S, error: KafkaError) -> None:
        shard.happened(ShardEvent.LOAD_FAILED)
        _log.error(
            "The %s of %s-%d could not be loaded: %s.",
            self._source.content,
            self._source.topic,
            shard.partition,
            error,
        )

    # Finding one's way.

    def get(self, partition: int) -> S | None:
        """The partition's shard, if this broker leads it."""
        return self._shards.get(partition)

    def all(self) -> list[S]:
        return list(self._shards.values())

    def active(self) -> list[S]:
        return [shard for shard in self._shards.values() if shard.state is ShardState.ACTIVE]

    def is_led(self, shard: S) -> bool:
        """Whether the shard is still this broker's, and not one that has been led since."""
        return self._shards.get(shard.partition) is shard
