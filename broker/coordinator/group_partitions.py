"""The partitions of `__consumer_offsets` that this broker leads, and their logs.

A partition that is led from now on is read from its log, a stretch at a time, before its groups
are served; one that is led no longer is let go. What a group writes is appended here, one batch a
decision, and the outcomes of a partition come in the order of its writes.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from ...clients.errors import ErrorCode, KafkaError
from ...clients.record.batch import batches
from ...clients.record.builder import RecordBatchBuilder
from .group_config import GroupCoordinatorConfig
from .group_records import GroupRecord
from .group_shard import SHARD_ERRORS, GroupShard, ShardEvent, ShardState
from .offsets import OffsetsProducer
from .offsets_log import Appended, OffsetsLog
from .offsets_topic import partition_for

_log = logging.getLogger(__name__)


class GroupPartitions:
    """The shards by partition. `on_loaded` and `on_lost` are told of them."""

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        log: OffsetsLog,
        on_loaded: Callable[[GroupShard], None],
        on_lost: Callable[[GroupShard], None],
    ) -> None:
        self.count = config.offsets_topic_num_partitions
        self._config = config
        self._log = log
        self._on_loaded = on_loaded
        self._on_lost = on_lost
        self._shards: dict[int, GroupShard] = {}
        self._loading: dict[int, asyncio.Handle] = {}
        # The write of each partition that was begun last and is still under way.
        self._last_writes: dict[int, asyncio.Future[Appended]] = {}

    # Leading.

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition now: read its log, then serve its groups."""
        known = self._shards.get(partition)
        if known is not None and known.leader_epoch == leader_epoch:
            return
        self.on_resigned(partition)
        shard = GroupShard(partition, leader_epoch, self._config)
        self._shards[partition] = shard
        try:
            position, end = self._log.offsets(partition)
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

    def _load(self, shard: GroupShard, position: int, end: int) -> None:
        """Read one stretch of the log, then let others run before the next."""
        self._loading.pop(shard.partition, None)
        try:
            if position < end:
                stretch = self._log.read(
                    shard.partition, position, self._config.offsets_load_buffer_size
                )
                next_position = position
                for batch in batches(stretch):
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

    def _load_failed(self, shard: GroupShard, error: KafkaError) -> None:
        shard.happened(ShardEvent.LOAD_FAILED)
        _log.error(
            "The groups of __consumer_offsets-%d could not be loaded: %s.", shard.partition, error
        )

    # Finding one's way.

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that a group belongs to."""
        return partition_for(group_id, self.count)

    def shard_of(self, group_id: str) -> GroupShard | None:
        return self._shards.get(self.partition_of(group_id))

    def get(self, partition: int) -> GroupShard | None:
        """The partition's shard, if this broker leads it."""
        return self._shards.get(partition)

    def all(self) -> list[GroupShard]:
        return list(self._shards.values())

    def active(self) -> list[GroupShard]:
        return [shard for shard in self._shards.values() if shard.state is ShardState.ACTIVE]

    def is_led(self, shard: GroupShard) -> bool:
        """Whether the shard is still this broker's, and not one that has been led since."""
        return self._shards.get(shard.partition) is shard

    # Writing.

    def append(
        self,
        shard: GroupShard,
        records: Sequence[GroupRecord],
        now_ms: int,
        written: Callable[[Appended], None],
        producer: OffsetsProducer | None = None,
    ) -> asyncio.Future[Appended] | None:
        """Append the records as one batch; `written` is called now or when the outcome is known.

        With a producer the batch is part of its transaction.
        """
        builder = RecordBatchBuilder() if producer is None else _transactional(producer)
        for key, value in records:
            builder.append(now_ms, key, value)
        outcome = self._log.append(shard.partition, builder.build())
        if isinstance(outcome, Appended):
            written(outcome)
            return None

        def done(future: asyncio.Future[Appended]) -> None:
            if self._last_writes.get(shard.partition) is future:
                del self._last_writes[shard.partition]
            # Resigned meanwhile: the log, and so the state, is another broker's to say.
            lost = future.cancelled() or not self.is_led(shard)
            written(Appended(ErrorCode.NOT_LEADER_OR_FOLLOWER) if lost else future.result())

        self._last_writes[shard.partition] = outcome
        outcome.add_done_callback(done)
        return outcome

    def after_writes(self, shard: GroupShard, then: Callable[[ErrorCode], None]) -> None:
        """Call `then` once all that was written so far has an outcome: now, or later.

        What an answer shows without writing anything may rest on what is not yet safe.
        """
        last = self._last_writes.get(shard.partition)
        if last is None:
            then(ErrorCode.NONE)
            return

        def done(_: object) -> None:
            then(ErrorCode.NONE if self.is_led(shard) else ErrorCode.NOT_COORDINATOR)

        last.add_done_callback(done)


def _transactional(producer: OffsetsProducer) -> RecordBatchBuilder:
    return RecordBatchBuilder(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        is_transactional=True,
    )


def shard_error(shard: GroupShard | None) -> ErrorCode:
    """Why a group's shard cannot be asked; NONE where it can."""
    return ErrorCode.NOT_COORDINATOR if shard is None else SHARD_ERRORS[shard.state]
