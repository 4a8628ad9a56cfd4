"""What the parts of a remote log manager have in common: where they read and where they write."""

from dataclasses import dataclass
from typing import Protocol

from ..clients.kafka_uuid import Uuid
from ..storage.files import Files
from .blocking_pool import BlockingPool
from .metadata.metadata_manager import RemoteLogMetadataManager
from .remote_storage import RemoteStorageManager


class ClusterTopics(Protocol):
    """What the cluster knows of its topics."""

    def has_metadata_topic(self) -> bool:
        """Whether the metadata topic is one of them: what is read there is then of this cluster."""
        ...

    def was_deleted(self, topic_id: Uuid) -> bool:
        """Whether it is on record that the topic of this id was deleted."""
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
    """Which topics were deleted, for whoever removes what they have left."""
