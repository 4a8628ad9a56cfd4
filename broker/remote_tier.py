"""The remote tier of this broker, put together: imported only where a tier is configured."""

from collections.abc import Callable
from typing import NamedTuple

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
from ..tiering.metadata_manager import (
    RemoteLogMetadataManager,
    TopicBasedRemoteLogMetadataManager,
)
from ..tiering.metadata_snapshot import SnapshotFiles
from ..tiering.metadata_topic import ClusterMetadataTopic
from ..tiering.remote_log_manager import RemoteLogManager
from ..tiering.remote_storage import RemoteStorageManager
from ..tiering.snapshot_keeper import SnapshotKeeper
from ..tiering.tier_access import TierAccess
from .config import BrokerConfig
from .listeners import EVERY_INTERFACE, Endpoint, Listeners
from .remote_plugins import COMMON_CLIENT, metadata_listener


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
    surroundings: tuple[Environment, Files, BlockingPool],
    log_manager: LogManager,
    listeners: Callable[[], Listeners],
    image: Callable[[], ClusterImage],
) -> RemoteLogManager:
    """Make it, not started: it is a client of the broker that has these listeners, once open.

    Raises KafkaError(INVALID_CONFIG) where a plugin cannot be loaded or configured.
    """
    environment, files, pool = surroundings
    settings = config.remote_log_manager
    client = metadata_client(config, listeners)
    access = TierAccess(
        storage=_storage(config, client, files, pool, image),
        metadata=_metadata(config, client, surroundings, image),
        files=files,
        pool=pool,
        topics=None if client.is_elsewhere else ImageTopics(image),
    )
    return RemoteLogManager(settings, access, environment, log_manager.get_log)


class MetadataClient(NamedTuple):
    """How the metadata topic is reached."""

    bootstrap: Callable[[], str]
    is_elsewhere: bool
    """The configuration names another cluster, and what that one's topics tell is not of ours."""


def metadata_client(config: BrokerConfig, listeners: Callable[[], Listeners]) -> MetadataClient:
    """Through the listener that the configuration names, unless it names a whole address."""
    own = config.values.with_prefix(config.values.text("remote.log.metadata.manager.impl.prefix"))
    stated = own.get(f"{COMMON_CLIENT}bootstrap.servers", "").strip()
    if stated:
        return MetadataClient(lambda: stated, True)
    return MetadataClient(lambda: own_address(metadata_listener(config.values, listeners())), False)


def plugin_configs(
    config: BrokerConfig, prefix: str, client: MetadataClient, image: Callable[[], ClusterImage]
) -> dict[str, str]:
    """What a plugin is told: what is stated behind its prefix, and where it is.

    The names beside its own are those that Kafka adds.
    """
    return {
        f"{COMMON_CLIENT}bootstrap.servers": client.bootstrap(),
        f"{COMMON_CLIENT}security.protocol": "PLAINTEXT",
        **config.values.with_prefix(prefix),
        "broker.id": str(config.node_id),
        "cluster.id": image().cluster_id,
        "log.dir": config.log_dirs[0],
    }


def _storage(
    config: BrokerConfig,
    client: MetadataClient,
    files: Files,
    pool: BlockingPool,
    image: Callable[[], ClusterImage],
) -> RemoteStorageManager:
    plugin = config.storage_plugin
    if plugin is not None:
        from ..tiering.plugins import make_storage

        prefix = config.values.text("remote.log.storage.manager.impl.prefix")
        return make_storage(plugin, plugin_configs(config, prefix, client, image))
    assert config.remote_storage is not None
    return FsspecStorage(
        config.remote_storage,
        files,
        pool,
        describe=lambda partition: topic_description(image(), partition),
    )


def _metadata(
    config: BrokerConfig,
    client: MetadataClient,
    surroundings: tuple[Environment, Files, BlockingPool],
    image: Callable[[], ClusterImage],
) -> RemoteLogMetadataManager:
    plugin = config.metadata_plugin
    if plugin is not None:
        from ..tiering.plugins import make_metadata_manager

        prefix = config.values.text("remote.log.metadata.manager.impl.prefix")
        return make_metadata_manager(plugin, plugin_configs(config, prefix, client, image))
    environment, files, pool = surroundings
    settings = config.remote_log_manager
    return TopicBasedRemoteLogMetadataManager(
        settings.metadata,
        ClusterMetadataTopic(settings.metadata, client.bootstrap, environment),
        environment,
        SnapshotKeeper(SnapshotFiles(files, settings.log_directory), pool),
    )
