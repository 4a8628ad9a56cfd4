"""The storage, metadata, files and threads that the parts of a remote log manager share."""

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

    def was_deleted(self, topic_id: Uuid) -> bool:
        """Whether the deletion of the topic with this id is on record."""
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
