"""Access to the metadata topic through this broker's own listener, with Kafka clients.

The topic is created with Kafka's settings: cleanup policy delete, not tiered, kept forever. In a
cluster of several processes its replication factor is the configured one, and its creation waits
for that many brokers, as in Kafka: with fewer replicas, all metadata of the tier could be lost with
one disk. For a process that is the whole cluster it is the number of live brokers if that is lower:
Kafka would wait there forever.

An event counts once it is durable. This broker flushes the replicas that it hosts, regardless of
the topic's configuration (`log_durability.py`); replicas on other brokers are protected by
replication, as in Kafka. Where there is neither, the topic is created with `flush.messages=1`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.environment import Environment
from ...clients.topic_partition import TopicPartition
from ...storage.log.unified_log import UnifiedLog
from ..config import MetadataManagerConfig
from .log_durability import LogDurability
from .metadata_events import METADATA_TOPIC
from .metadata_snapshot import TopicIdentity

if TYPE_CHECKING:
    # A broker without tiering starts without these imports.
    from ...clients.admin import Admin, NewTopic
    from ...clients.consumer.completed_fetch import ConsumerRecord
    from ...clients.consumer.consumer import Consumer
    from ...clients.network.security import ConnectionSecurity
    from ...clients.producer.producer import Producer

CLIENT_ID = "__remote_log_metadata_client"
# The work of an event that is lost at a stop (a copy, for example) is repeated after the next
# start, so a stop need not wait until the delivery timeout.
_STOP_TIMEOUT_MS = 2_000
_LOOKUP_TIMEOUT_MS = 5_000
"""How long end offsets may take, during which nothing is read."""


LogOf = Callable[[TopicPartition], UnifiedLog | None]
"""Returns this broker's log of a partition; None if it has none."""


class HostedReplicas:
    """The replicas of the metadata topic that this broker hosts."""

    def __init__(self, log_of: LogOf, durability: LogDurability) -> None:
        self._log_of = log_of
        self._durability = durability

    async def make_durable(self, ends: Mapping[int, int]) -> None:
        """See `MetadataTopic`."""
        for partition, end in ends.items():
            log = self._log_of(TopicPartition(METADATA_TOPIC, partition))
            if log is not None:
                await self._durability.sync(log, end)

    def stop(self) -> None:
        """Start no further fsync. Idempotent."""
        self._durability.stop()


def metadata_topic_config(
    config: MetadataManagerConfig, replication_factor: int, *, syncs_itself: bool = False
) -> dict[str, str]:
    """The metadata topic's configuration; `syncs_itself` if nothing else flushes a sole replica."""
    topic_config = {
        "cleanup.policy": "delete",
        "remote.storage.enable": "false",
        "retention.ms": str(config.topic_retention_ms),
        "min.insync.replicas": str(min(config.topic_min_isr, replication_factor)),
    }
    if syncs_itself and replication_factor == 1:
        topic_config["flush.messages"] = "1"
    return topic_config


class ClusterMetadataTopic:
    """`MetadataTopic` over the network. `bootstrap` is called only when it connects.

    `hosted` is None if the topic is in another cluster.
    """

    def __init__(
        self,
        config: MetadataManagerConfig,
        bootstrap: Callable[[], str],
        environment: Environment,
        hosted: HostedReplicas | None = None,
        writer: str = CLIENT_ID,
        *,
        waits_for_brokers: bool = False,
        security: "ConnectionSecurity | None" = None,
    ) -> None:
        """`writer` is the client id by which this broker recognises the producer.

        With `waits_for_brokers`, the topic is created once it can have all its replicas. Without
        `security`, connections are in plain text and without a login.
        """
        self._config = config
        self._writer = writer
        self._bootstrap = bootstrap
        self._environment = environment
        self._hosted = hosted
        self._waits_for_brokers = waits_for_brokers
        self._security = security
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._identity: TopicIdentity | None = None

    async def open(self) -> int:
        from ...clients.admin import Admin
        from ...clients.consumer.consumer import Consumer
        from ...clients.network.network import NetworkConfig
        from ...clients.producer.producer import Producer

        bootstrap = self._bootstrap()
        network = NetworkConfig(client_id=CLIENT_ID)
        if self._security is not None:
            network = replace(network, security=self._security)
        admin = Admin(bootstrap, network=network, environment=self._environment)
        try:
            partitions = await self._ensure_topic(admin)
        finally:
            await admin.stop()
        if self._producer is None:
            producer = Producer(
                bootstrap,
                client_id=self._writer,
                network=replace(network, client_id=self._writer),
                environment=self._environment,
            )
            await producer.start()
            self._producer = producer
        if self._consumer is None:
            consumer = Consumer(
                bootstrap,
                client_id=CLIENT_ID,
                auto_offset_reset="earliest",
                network=network,
                default_api_timeout_ms=_LOOKUP_TIMEOUT_MS,
                environment=self._environment,
            )
            await consumer.start()
            self._consumer = consumer
        return partitions

    async def _ensure_topic(self, admin: "Admin") -> int:
        topics = await admin.list_topics(include_internal=True)
        if METADATA_TOPIC not in topics:
            brokers = len((await admin.describe_cluster()).brokers)
            try:
                await admin.create_topics([self._new_topic(brokers)])
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            topics = await admin.list_topics(include_internal=True)
        if METADATA_TOPIC not in topics:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{METADATA_TOPIC} does not exist yet"
            )
        self._identity = TopicIdentity(admin.cluster_id, topics[METADATA_TOPIC].topic_id)
        return len(topics[METADATA_TOPIC].partitions)

    def _new_topic(self, live_brokers: int) -> "NewTopic":
        from ...clients.admin import NewTopic

        config = self._config
        replication_factor = config.topic_replication_factor
        if not self._waits_for_brokers:
            replication_factor = max(1, min(replication_factor, live_brokers))
        elif live_brokers < replication_factor:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"{METADATA_TOPIC} is created once {replication_factor} brokers are live for its "
                f"{replication_factor} replicas, and {live_brokers} are live. A smaller cluster "
                "needs a lower rlmm.config.remote.log.metadata.topic.replication.factor.",
            )
        # In a cluster of one broker the only replica is here and is flushed as events are read.
        is_hosted = self._hosted is not None and live_brokers == 1 and not self._waits_for_brokers
        return NewTopic(
            METADATA_TOPIC,
            config.topic_partitions,
            replication_factor,
            metadata_topic_config(config, replication_factor, syncs_itself=not is_hosted),
        )

    @property
    def identity(self) -> TopicIdentity:
        assert self._identity is not None, "The topic is not open yet"
        return self._identity

    async def append(self, partition: int, value: bytes) -> int:
        assert self._producer is not None
        written = await self._producer.send(METADATA_TOPIC, value, partition=partition)
        return written.offset

    def assign(self, partitions: Collection[int]) -> None:
        assert self._consumer is not None
        self._consumer.assign(
            [TopicPartition(METADATA_TOPIC, partition) for partition in partitions]
        )

    def seek(self, partition: int, offset: int | None) -> None:
        assert self._consumer is not None
        target = TopicPartition(METADATA_TOPIC, partition)
        if offset is None:
            self._consumer.seek_to_beginning([target])
        else:
            self._consumer.seek(target, offset)

    async def poll(self, timeout_ms: int) -> "list[ConsumerRecord]":
        assert self._consumer is not None
        return await self._consumer.poll(timeout_ms)

    async def make_durable(self, ends: Mapping[int, int]) -> None:
        if self._hosted is not None:
            await self._hosted.make_durable(ends)

    async def positions(self, partitions: Collection[int]) -> Mapping[int, int]:
        assert self._consumer is not None
        return {
            partition: await self._consumer.position(TopicPartition(METADATA_TOPIC, partition))
            for partition in partitions
        }

    async def end_offsets(self, partitions: Collection[int]) -> Mapping[int, int]:
        assert self._consumer is not None
        ends = await self._consumer.end_offsets(
            [TopicPartition(METADATA_TOPIC, partition) for partition in partitions]
        )
        return {partition.partition: offset for partition, offset in ends.items()}

    async def close(self) -> None:
        producer, consumer = self._producer, self._consumer
        self._producer = self._consumer = None
        if consumer is not None:
            await consumer.stop()
        if producer is not None:
            await producer.stop(_STOP_TIMEOUT_MS)
        if self._hosted is not None:
            self._hosted.stop()
