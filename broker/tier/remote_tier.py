"""Makes the remote tier of this broker. Imported only if a tier is configured."""

from collections.abc import Callable
from dataclasses import replace

from ...clients.network.security import ConnectionSecurity
from ...clients.runtime.supervisor import Supervisor
from ...clients.topic_partition import TopicIdPartition
from ...replication.metadata.cluster_image import ClusterImage
from ...storage.manager.log_manager import LogManager
from ...tiering.blocking_pool import ThreadedPool
from ...tiering.metadata.log_durability import LogDurability
from ...tiering.metadata.metadata_manager import (
    RemoteLogMetadataManager,
    TopicBasedRemoteLogMetadataManager,
)
from ...tiering.metadata.metadata_snapshot import SnapshotFiles
from ...tiering.metadata.metadata_topic import ClusterMetadataTopic, HostedReplicas
from ...tiering.metadata.snapshot_keeper import SnapshotKeeper
from ...tiering.remote_log_manager import RemoteLogManager
from ...tiering.remote_storage import RemoteStorageManager
from ...tiering.store.fsspec_storage import FsspecStorage
from ...tiering.store.manifest import TopicDescription
from ...tiering.tier_access import TierAccess
from ...tiering.tier_owner import OwnerFile, OwnerTools, Writer
from ..config.config import BrokerConfig
from ..config.listeners import EVERY_INTERFACE, Listeners
from ..config.remote_plugins import COMMON_CLIENT, metadata_listener, stated_bootstrap
from ..config.tls_listeners import node_security
from ..network.socket_listener import Endpoint
from .image_topics import ImageTopics
from .tier_resources import TierResources


def own_address(endpoint: Endpoint) -> str:
    """The address at which this process reaches its own listener."""
    host = "127.0.0.1" if endpoint.host in EVERY_INTERFACE else endpoint.host
    return endpoint._replace(host=host).address


def topic_description(image: ClusterImage, partition: TopicIdPartition) -> TopicDescription | None:
    """The topic's description for a partition's manifests; None if the topic was deleted."""
    topic = image.topics_by_id.get(partition.topic_id)
    if topic is None:
        return None
    return TopicDescription(len(topic.partitions), image.topic_config(topic.name))


def make_remote_log_manager(
    config: BrokerConfig,
    resources: TierResources,
    log_manager: LogManager,
    listeners: Callable[[], Listeners],
    topics: ImageTopics,
    writer: str,
    supervisor: Supervisor,
) -> RemoteLogManager:
    """Make the remote log manager. Start it after the listeners, to one of which it connects.

    `writer` is the client id by which the broker recognises the producer of the tier's metadata.
    Raises KafkaError(INVALID_CONFIG) if a plugin cannot be loaded or configured.
    """
    environment, files, pool, around_storage = resources
    settings, image = config.remote_log_manager, topics.image
    client = metadata_client(config, listeners)
    access = TierAccess(
        storage=around_storage(_storage(config, client, resources, image)),
        metadata=_metadata(config, client, resources, image, log_manager, writer, supervisor),
        files=files,
        pool=pool,
        topics=topics,
    )
    return RemoteLogManager(settings, access, environment, log_manager.get_log, supervisor)


Bootstrap = Callable[[], str]
"""Returns the address at which the metadata topic is reached."""


def metadata_client(config: BrokerConfig, listeners: Callable[[], Listeners]) -> Bootstrap:
    """The bootstrap address that is set, or else the address of the configured listener."""
    stated = stated_bootstrap(config.values)
    if stated:
        return lambda: stated
    return lambda: _address_of(config, listeners())


def _address_of(config: BrokerConfig, listeners: Listeners) -> str:
    """The address of the listener for access to the metadata topic.

    With TLS it is the one that is advertised: the certificate names its host.
    """
    own = metadata_listener(config.values, listeners, is_member=config.is_member)
    if own.name not in config.tls:
        return own_address(own)
    return next(endpoint.address for endpoint in listeners.advertised if endpoint.name == own.name)


def plugin_configs(
    config: BrokerConfig, prefix: str, client: Bootstrap, image: Callable[[], ClusterImage]
) -> dict[str, str]:
    """A plugin's configuration: the properties with its prefix, and those that Kafka adds.

    A plugin may override the address of the broker, but not its id, cluster id and directory.
    """
    return {
        f"{COMMON_CLIENT}bootstrap.servers": client(),
        f"{COMMON_CLIENT}security.protocol": _metadata_protocol(config),
        **config.values.with_prefix(prefix),
        "broker.id": str(config.node_id),
        "cluster.id": image().cluster_id,
        "log.dir": config.log_dirs[0],
    }


def _storage(
    config: BrokerConfig,
    client: Bootstrap,
    resources: TierResources,
    image: Callable[[], ClusterImage],
) -> RemoteStorageManager:
    plugin = config.storage_plugin
    if plugin is not None:
        from ...tiering.plugins import make_storage

        prefix = config.values.text("remote.log.storage.manager.impl.prefix")
        return make_storage(plugin, plugin_configs(config, prefix, client, image))
    assert config.remote_storage is not None
    return FsspecStorage(
        config.remote_storage,
        resources.files,
        resources.pool,
        describe=lambda partition: topic_description(image(), partition),
        owner=owner_tools(config, resources, image),
    )


def owner_tools(
    config: BrokerConfig,
    resources: TierResources,
    image: Callable[[], ClusterImage],
) -> OwnerTools | None:
    """The tools that check the ownership of the tier; None for a store in memory."""
    location = config.remote_storage
    assert location is not None
    if location.protocol == "memory":
        return None
    environment, files, pool, _ = resources
    return OwnerTools(
        lambda: Writer(image().cluster_id, config.node_id),
        OwnerFile(files, config.log_dirs[0], str(location)),
        environment,
        pool,
        is_shared=config.is_member,
    )


def _metadata_protocol(config: BrokerConfig) -> str:
    """The protocol of the listener for access to the metadata topic, or of another cluster's."""
    if stated_bootstrap(config.values):
        return "PLAINTEXT"
    own = metadata_listener(config.values, config.listeners, is_member=config.is_member)
    return config.protocol_name(own.name)


def _metadata_security(config: BrokerConfig) -> ConnectionSecurity:
    """How connections to the metadata topic of this cluster are secured."""
    own = metadata_listener(config.values, config.listeners, is_member=config.is_member)
    security = node_security(config, own.name)
    if config.metadata_login is None:
        return security
    return replace(security, login=config.metadata_login, may_retry_login=True)


def _metadata(
    config: BrokerConfig,
    client: Bootstrap,
    resources: TierResources,
    image: Callable[[], ClusterImage],
    log_manager: LogManager,
    writer: str,
    supervisor: Supervisor,
) -> RemoteLogMetadataManager:
    plugin = config.metadata_plugin
    if plugin is not None:
        from ...tiering.plugins import make_metadata_manager

        prefix = config.values.text("remote.log.metadata.manager.impl.prefix")
        return make_metadata_manager(plugin, plugin_configs(config, prefix, client, image))
    environment, files, pool, _ = resources
    settings = config.remote_log_manager
    hosted: HostedReplicas | None = None
    if not stated_bootstrap(config.values):
        # A thread of its own: a flush of events must not wait for a store that hangs.
        durability = LogDurability(ThreadedPool(1, "remote-log-metadata-flush"))
        hosted = HostedReplicas(log_manager.get_log, durability)
    return TopicBasedRemoteLogMetadataManager(
        settings.metadata,
        ClusterMetadataTopic(
            settings.metadata,
            client,
            environment,
            hosted,
            writer,
            waits_for_brokers=config.is_member,
            security=None if hosted is None else _metadata_security(config),
        ),
        environment,
        SnapshotKeeper(SnapshotFiles(files, settings.log_directory), pool),
        supervisor,
    )
