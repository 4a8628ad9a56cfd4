"""The partitions of `__consumer_offsets` that this broker leads, and their logs.

A partition that is led from now on is read from its log, a stretch at a time, before its groups
are served; one that is led no longer is let go. What a group writes is appended here, one batch a
decision, and the outcomes of a partition come in the order of its writes.
"""

import asyncio
from collections.abc import Callable, Sequence

from ....clients.errors import ErrorCode
from ....clients.record.builder import RecordBatchBuilder
from ..group_config import GroupCoordinatorConfig
from ..group_records import GroupRecord
from ..led_shards import SHARD_ERRORS, LedShards, ShardLog
from ..offsets_log import Appended, OffsetsLog
from ..offsets_topic import OFFSETS_TOPIC, partition_for
from .group_shard import GroupShard


class GroupPartitions(LedShards[GroupShard]):
    """The shards by partition. `on_loaded` and `on_lost` are told of them."""

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        log: OffsetsLog,
        on_loaded: Callable[[GroupShard], None],
        on_lost: Callable[[GroupShard], None],
    ) -> None:
        def new_shard(partition: int, leader_epoch: int) -> GroupShard:
            return GroupShard(partition, leader_epoch, config)

        source = ShardLog(log, OFFSETS_TOPIC, "groups", config.offsets_load_buffer_size)
        super().__init__(source, new_shard, on_loaded, on_lost)
        self.count = config.offsets_topic_num_partitions
        self._log = log
        # The write of each partition that was begun last and is still under way.
        self._last_writes: dict[int, asyncio.Future[Appended]] = {}

    # Finding one's way.

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that a group belongs to."""
        return partition_for(group_id, self.count)

    def shard_of(self, group_id: str) -> GroupShard | None:
        return self.get(self.partition_of(group_id))

    # Writing.

    def append(
        self,
        shard: GroupShard,
        records: Sequence[GroupRecord],
        now_ms: int,
        written: Callable[[Appended], None],
    ) -> asyncio.Future[Appended] | None:
        """Append the records as one batch; `written` is called now or when the outcome is known."""
        builder = RecordBatchBuilder()
        for key, value in records:
            builder.append(now_ms, key, value)
        return self.append_batch(shard, builder.build(), written)

    def append_batch(
        self, shard: GroupShard, batch: bytearray, written: Callable[[Appended], None]
    ) -> asyncio.Future[Appended] | None:
        """Append a batch; `written` is called now or when the outcome is known."""
        outcome = self._log.append(shard.partition, batch)
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


def shard_error(shard: GroupShard | None) -> ErrorCode:
    """Why a group's shard cannot be asked; NONE where it can."""
    return ErrorCode.NOT_COORDINATOR if shard is None else SHARD_ERRORS[shard.state]
