"""What the parts of a remote log manager have in common: where they read and where they write."""

from dataclasses import dataclass

from ..storage.files import Files
from .blocking_pool import BlockingPool
from .metadata_manager import RemoteLogMetadataManager
from .partition_removal import ClusterTopics
from .remote_storage import RemoteStorageManager


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
