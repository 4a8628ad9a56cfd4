"""The partitions of `__consumer_offsets` that this broker leads, and the partition of a group."""

from collections.abc import Callable

from ...clients.errors import ErrorCode
from ..group_config import GroupCoordinatorConfig
from ..led_shards import SHARD_ERRORS, LedShards, ShardLog
from ..offsets_log import OffsetsLog
from ..offsets_topic import OFFSETS_TOPIC, partition_for
from ..shard_writer import ShardWriter
from .group_shard import GroupShard


class GroupPartitions:
    """The shards of the led partitions, and the writer of their records.

    `on_loaded` is called when a shard can be served, `on_lost` when it is no longer led.
    """

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
        self.shards = LedShards(source, new_shard, on_loaded, on_lost)
        self.writer = ShardWriter(log, self.shards)
        self.count = config.offsets_topic_num_partitions

    def close(self) -> None:
        """Resign from all partitions, and wait for no replica."""
        self.writer.close()
        self.shards.close()

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that a group belongs to."""
        return partition_for(group_id, self.count)

    def shard_of(self, group_id: str) -> GroupShard | None:
        """The shard of a group, if this broker leads its partition."""
        return self.shards.get(self.partition_of(group_id))


def shard_error(shard: GroupShard | None) -> ErrorCode:
    """The reason why a group's shard cannot be used, or NONE."""
    return ErrorCode.NOT_COORDINATOR if shard is None else SHARD_ERRORS[shard.state]
