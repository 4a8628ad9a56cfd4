"""The interface of the remote tier to replication; `tiering.remote_log_manager` implements it.

Local reads never use it. It looks up records and timestamps that are no longer on this broker's
disk, and is notified of the tiered partitions that this broker leads.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ..clients.topic_partition import TopicIdPartition
from ..storage.log.fetch_data import RemoteRead, RemoteTimestampLookup
from ..storage.segment.time_index import TimestampAndOffset

if TYPE_CHECKING:
    from ..tiering.reading.remote_log_reader import RemoteFetchResult
    from ..tiering.remote_log_manager import LeaderPartition


class RemoteTier(Protocol):
    """The remote part of every tiered log on this broker."""

    @property
    def is_fetch_throttled(self) -> bool:
        """Whether remote fetches currently exceed their quota."""
        ...

    async def read(self, remote_read: RemoteRead) -> "RemoteFetchResult":
        """Whole batches from the tier. Raises KafkaError."""
        ...

    async def offset_for_timestamp(
        self, lookup: RemoteTimestampLookup
    ) -> TimestampAndOffset | None:
        """The first record at or after the timestamp, local or remote. Raises KafkaError."""
        ...

    def on_leadership_change(
        self, leaders: "Sequence[LeaderPartition]", followers: Sequence[TopicIdPartition]
    ) -> None:
        """Handle new leaders and followers among this broker's tiered partitions.

        A leader may be passed again in the same epoch, for example with a new configuration.
        """
        ...

    def on_tiering_disabled(
        self, leaders: "Sequence[LeaderPartition]", followers: Sequence[TopicIdPartition]
    ) -> None:
        """Handle partitions that are no longer tiered; delete their remote data (KIP-950)."""
        ...

    def stop_partitions(self, partitions: Sequence[TopicIdPartition], delete: bool) -> None:
        """Stop work on partitions, which may have left; with `delete`, delete their remote data."""
        ...
