"""What replication asks of the remote tier; `tiering.remote_log_manager` answers.

Local reads never touch it. It is asked for records and for timestamps that are not on this broker's
disk any more, and told which tiered partitions are led from here.
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
        """Whether remote fetches have exceeded their quota at the moment."""
        ...

    async def read(self, remote_read: RemoteRead) -> "RemoteFetchResult":
        """Whole batches from the tier. Raises KafkaError."""
        ...

    async def offset_for_timestamp(
        self, lookup: RemoteTimestampLookup
    ) -> TimestampAndOffset | None:
        """The first record at least that young, in whichever tier. Raises KafkaError."""
        ...

    def on_leadership_change(
        self, leaders: "Sequence[LeaderPartition]", followers: Sequence[TopicIdPartition]
    ) -> None:
        """These tiered partitions are led, or followed, from here now.

        One that is led in this epoch already is configured otherwise now.
        """
        ...

    def on_tiering_disabled(
        self, leaders: "Sequence[LeaderPartition]", followers: Sequence[TopicIdPartition]
    ) -> None:
        """These are not tiered any more; what the tier has of them is to go (KIP-950)."""
        ...

    def stop_partitions(self, partitions: Sequence[TopicIdPartition], delete: bool) -> None:
        """These partitions are not here any more; with `delete` their remote data is to go."""
        ...
