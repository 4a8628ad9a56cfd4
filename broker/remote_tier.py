"""The remote tier of this broker, put together: imported only where a tier is configured."""

from collections.abc import Callable

from ..clients.environment import Environment
from ..clients.kafka_uuid import Uuid
from ..clients.topic_partition import TopicIdPartition
from ..replication.cluster_image import ClusterImage
from ..storage.files import Files
from ..storage.log_manager import LogManager
from ..tiering.blocking_pool import BlockingPool
from ..tiering.fsspec_storage import FsspecStorage
from ..tiering.manifest import TopicDescription
from ..tiering.metadata_events import METADATA_TOPIC
from ..tiering.metadata_manager import TopicBasedRemoteLogMetadataManager
from ..tiering.metadata_snapshot import SnapshotFiles
from ..tiering.metadata_topic import ClusterMetadataTopic
from ..tiering.remote_log_manager import RemoteLogManager
from ..tiering.remote_url import RemoteUrl
from ..tiering.snapshot_keeper import SnapshotKeeper
from ..tiering.tier_access import TierAccess
from .config import BrokerConfig
from .listeners import EVERY_INTERFACE, Endpoint


def own_address(endpoint: Endpoint) -> str:
    """Where this process reaches its own listener."""
    host = "127.0.0.1" if endpoint.host in EVERY_INTERFACE else endpoint.host
    return endpoint._replace(host=host).address


class ImageTopics:
    """Which topics there are, by what the cluster has agreed on so far.

    A process is its cluster's only controller: its image is never behind. An image that does not
    hold the metadata topic is not that of the cluster whose metadata is read, or a new one, and
    what it does not know proves nothing.
    """

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image

    def has_metadata_topic(self) -> bool:
        return METADATA_TOPIC in self._image().topics_by_name

    def has(self, topic_id: Uuid) -> bool:
        return topic_id in self._image().topics_by_id


def topic_description(image: ClusterImage, partition: TopicIdPartition) -> TopicDescription | None:
    """What the manifests of a partition are to tell of its topic; None once that is deleted."""
    topic = image.topics_by_id.get(partition.topic_id)
    if topic is None:
        return None
    return TopicDescription(len(topic.partitions), image.topic_config(topic.name))


def make_remote_log_manager(
    config: BrokerConfig,
    location: RemoteUrl,
    surroundings: tuple[Environment, Files, BlockingPool],
    log_manager: LogManager,
    bootstrap: Callable[[], str],
    image: Callable[[], ClusterImage],
) -> RemoteLogManager:
    """Make it, not started: it is a client of the broker that `bootstrap` names."""
    environment, files, pool = surroundings
    settings = config.remote_log_manager
    topic = ClusterMetadataTopic(settings.metadata, bootstrap, environment)
    access = TierAccess(
        storage=FsspecStorage(
            location,
            files,
            pool,
            describe=lambda partition: topic_description(image(), partition),
        ),
        metadata=TopicBasedRemoteLogMetadataManager(
            settings.metadata,
            topic,
            environment,
            SnapshotKeeper(SnapshotFiles(files, settings.log_directory), pool),
        ),
        files=files,
        pool=pool,
        topics=ImageTopics(image),
    )
    return RemoteLogManager(settings, access, environment, log_manager.get_log)
