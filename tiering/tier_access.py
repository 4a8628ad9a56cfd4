"""The storage, metadata, files and threads that the parts of a remote log manager share."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from ..clients.kafka_uuid import Uuid
from ..storage.files import Files
from .blocking_pool import BlockingPool
from .metadata.metadata_manager import RemoteLogMetadataManager
from .remote_storage import RemoteStorageManager


class ClusterTopics(Protocol):
    """The cluster's knowledge of its topics."""

    def has_metadata_topic(self) -> bool:
        """Whether the metadata topic exists in this cluster, so that its events are ours."""
        ...

    def watched_partitions(self) -> Collection[int] | None:
        """Metadata partitions in which this broker looks for deleted topics; None for all."""
        ...

    async def settle(self, topic_ids: Collection[Uuid]) -> None:
        """Find out which of these topics were deleted, for `was_deleted`. Bounded in time.

        Does nothing for topics that exist or whose deletion is on record.
        """
        ...

    def was_deleted(self, topic_id: Uuid) -> bool:
        """Whether the topic with this id was deleted for certain: on record, or proven."""
        ...


@dataclass(frozen=True, slots=True)
class TierAccess:
    """Where a remote log manager reads and writes."""

    storage: RemoteStorageManager
    metadata: RemoteLogMetadataManager
    files: Files
    pool: BlockingPool
    """For reading and writing local files off the event loop."""
    topics: ClusterTopics | None = None
    """For the removal of remote data: which topics were deleted."""
