"""The admin client (`KafkaAdminClient` in Kafka), as far as tests, tools and the broker's own
agents need it.

Requests that change the cluster go to the controller, or to the broker that acts as one. All
requests are retried on retriable errors until the timeout. A method that changes several topics
raises the first error; its changes to other topics are not undone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import NamedTuple, Self, TypeVar

from .errors import ErrorCode, KafkaError
from .kafka_uuid import Uuid
from .network.metadata import Metadata, TopicMetadata
from .network.network import Address, NetworkClient, NetworkConfig
from .network.offset_lookup import OffsetAndTimestamp, OffsetLookup
from .network.refusal import raise_for, refusal
from .network.retries import retry_until
from .protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from .protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from .protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from .protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from .protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from .protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from .protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from .protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from .protocol.schema import Message
from .runtime.environment import Environment, SystemEnvironment
from .topic_partition import TopicPartition

T = TypeVar("T")
R = TypeVar("R", bound=Message)

_SET, _DELETE = 0, 1
"""`AlterConfigOp.OpType`."""


class ConfigResourceType(IntEnum):
    """The type of resource that has a configuration (`ConfigResource.Type`)."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class ConfigSource(IntEnum):
    """Where the value of a config comes from (`DescribeConfigsResponse.ConfigSource`)."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigEntry(NamedTuple):
    """One config of a resource; the value is None if it is sensitive."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool


class NewTopic(NamedTuple):
    """A topic to create; a count of -1 means the broker's default."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = {}
    replica_assignments: Mapping[int, Sequence[int]] = {}


class ClusterDescription(NamedTuple):
    """The result of DescribeCluster."""

    cluster_id: str
    controller_id: int
    brokers: dict[int, Address]
    racks: Mapping[int, str | None] = {}


class Admin:
    """Administers a cluster. Use as an async context manager, or `stop` it at the end."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        client_id: str = "tierlog-admin",
        timeout_ms: int = 60_000,
        network: NetworkConfig | None = None,
        environment: Environment | None = None,
    ) -> None:
        environment = environment or SystemEnvironment()
        self._timeout_ms = timeout_ms
        self._random = environment.random
        self._network = NetworkClient(
            bootstrap, environment, network or NetworkConfig(client_id=client_id)
        )
        self._metadata = Metadata(self._network, environment)
        self._lookup = OffsetLookup(self._network, self._metadata, environment)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Close the connections."""
        await self._network.close()

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, Uuid]:
        """Create topics; returns ids by name. Raises `KafkaError`, such as TOPIC_ALREADY_EXISTS."""
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )

        async def attempt() -> dict[str, Uuid]:
            response = await self._network.request(
                await self._controller(), request, CreateTopicsResponse
            )
            for topic in response.topics:
                _raise_for(topic.error_code, topic.error_message, topic.name)
            return {topic.name: topic.topic_id for topic in response.topics}

        return await self._retry(attempt)

    async def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics by name. Raises `KafkaError`, such as UNKNOWN_TOPIC_OR_PARTITION."""
        topic_names = list(names)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in topic_names],
            topic_names=topic_names,
            timeout_ms=self._timeout_ms,
        )

        async def attempt() -> None:
            response = await self._network.request(
                await self._controller(), request, DeleteTopicsResponse
            )
            for topic in response.responses:
                _raise_for(topic.error_code, topic.error_message, topic.name or "")

        await self._retry(attempt, except_for=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def create_partitions(self, counts: Mapping[str, int]) -> None:
        """Increase the partition counts of topics to these numbers. Raises `KafkaError`."""
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name=name, count=count, assignments=None)
                for name, count in counts.items()
            ],
            timeout_ms=self._timeout_ms,
        )

        async def attempt() -> None:
            response = await self._network.request(
                await self._controller(), request, CreatePartitionsResponse
            )
            for topic in response.results:
                _raise_for(topic.error_code, topic.error_message, topic.name)

        await self._retry(attempt, except_for=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def describe_configs(
        self, resource_type: ConfigResourceType, name: str, keys: Collection[str] | None = None
    ) -> dict[str, str | None]:
        """The effective configuration of a resource, by key; sensitive values are None."""
        entries = await self.config_entries(resource_type, name, keys)
        return {entry.name: entry.value for entry in entries}

    async def config_entries(
        self, resource_type: ConfigResourceType, name: str, keys: Collection[str] | None = None
    ) -> list[ConfigEntry]:
        """The configs of a resource with their sources. Raises `KafkaError`.

        A broker's name is its id, or empty for the defaults of all brokers.
        """
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=resource_type,
                    resource_name=name,
                    configuration_keys=None if keys is None else list(keys),
                )
            ]
        )

        async def attempt() -> list[ConfigEntry]:
            response = await self._request_of(resource_type, name, request, DescribeConfigsResponse)
            (result,) = response.results
            _raise_for(result.error_code, result.error_message, name)
            return [
                ConfigEntry(
                    config.name,
                    config.value,
                    _config_source(config.config_source),
                    config.read_only,
                    config.is_sensitive,
                )
                for config in result.configs
            ]

        return await self._retry(attempt, except_for=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def alter_configs(
        self, resource_type: ConfigResourceType, name: str, changes: Mapping[str, str | None]
    ) -> None:
        """Set configs of a resource; None removes one (IncrementalAlterConfigs, KIP-339).

        A broker's name is its id, or empty for the defaults of all brokers. Raises `KafkaError`.
        """
        resource = AlterConfigsResource(
            resource_type=resource_type,
            resource_name=name,
            configs=[
                AlterableConfig(
                    name=key, config_operation=_DELETE if value is None else _SET, value=value
                )
                for key, value in changes.items()
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)

        async def attempt() -> None:
            response = await self._request_of(
                resource_type, name, request, IncrementalAlterConfigsResponse
            )
            for answer in response.responses:
                _raise_for(answer.error_code, answer.error_message, name)

        await self._retry(attempt, except_for=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Delete the records below these offsets, -1 for all; returns the log start offsets.

        Raises `KafkaError`, such as OFFSET_OUT_OF_RANGE above the high watermark.
        """
        await self._retry(lambda: self._metadata.refresh({each.topic for each in offsets}))
        starts: dict[TopicPartition, int] = {}
        for partition, offset in offsets.items():
            starts[partition] = await self._retry(partial(self._delete_below, partition, offset))
        return starts

    async def _delete_below(self, partition: TopicPartition, offset: int) -> int:
        await self._metadata.ensure({partition.topic})
        leader = self._metadata.leader(partition)
        if leader is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"No leader of {partition} is known.")
        below = DeleteRecordsPartition(partition_index=partition.partition, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=partition.topic, partitions=[below])],
            timeout_ms=self._timeout_ms,
        )
        response = await self._network.request(leader.leader_id, request, DeleteRecordsResponse)
        (answer,) = response.topics[0].partitions
        raise_for(answer.error_code, f"The records of {partition} below {offset} stay.")
        return answer.low_watermark

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicMetadata]:
        """These topics, by name. Raises `KafkaError`, at once if a topic does not exist."""
        topics = [MetadataRequestTopic(name=name) for name in dict.fromkeys(names)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)

        async def attempt() -> dict[str, TopicMetadata]:
            response = await self._network.request_any(request, MetadataResponse)
            for topic in response.topics:
                if topic.error_code:
                    raise refusal(topic.error_code, _describe_failure(topic.name, topic.error_code))
            self._metadata.apply(response)
            return {
                topic.name: self._metadata.topics[topic.name]
                for topic in response.topics
                if topic.name is not None
            }

        return await self._retry(attempt, except_for=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers. Raises `KafkaError`."""

        async def attempt() -> ClusterDescription:
            response = await self._network.request_any(
                DescribeClusterRequest(), DescribeClusterResponse
            )
            _raise_for(response.error_code, response.error_message, "the cluster")
            return ClusterDescription(
                response.cluster_id,
                response.controller_id,
                {
                    broker.broker_id: Address(broker.host, broker.port)
                    for broker in response.brokers
                },
                {broker.broker_id: broker.rack for broker in response.brokers},
            )

        return await self._retry(attempt)

    @property
    def network(self) -> NetworkClient:
        """The connections, for what other files of this package ask of brokers."""
        return self._network

    @property
    def timeout_ms(self) -> int:
        """How long requests are retried."""
        return self._timeout_ms

    @property
    def cluster_id(self) -> str:
        """The cluster's id; empty if the brokers sent none, or before metadata is requested."""
        return self._metadata.cluster_id or ""

    async def list_topics(self, *, include_internal: bool = False) -> dict[str, TopicMetadata]:
        """All topics, by name. Raises `KafkaError`."""
        await self._retry(self._all_metadata)
        return {
            name: topic
            for name, topic in self._metadata.topics.items()
            if include_internal or not topic.is_internal
        }

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = 0
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets at timestamps, or named offsets (`offset_names.py`). Raises `KafkaError`."""
        return await self._lookup.look_up(
            timestamps, isolation_level=isolation_level, timeout_ms=self._timeout_ms
        )

    async def _request_of(
        self, resource_type: ConfigResourceType, name: str, request: Message, response: type[R]
    ) -> R:
        """Ask the broker that a resource is, or any of them. Raises `KafkaError`."""
        if resource_type is ConfigResourceType.BROKER and name:
            await self._controller()  # also fetches the broker addresses
            return await self._network.request(int(name), request, response)
        return await self._network.request_any(request, response)

    async def _all_metadata(self) -> None:
        response = await self._network.request_any(
            MetadataRequest(topics=None, allow_auto_topic_creation=False), MetadataResponse
        )
        self._metadata.topics.clear()
        self._metadata.apply(response)

    async def _controller(self) -> int:
        """The controller's node id. Raises `KafkaError` if it is unknown."""
        if self._metadata.is_stale:
            await self._metadata.refresh(())
        if self._metadata.controller_id not in self._network.node_ids:
            self._metadata.mark_stale()
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "No controller is known.")
        return self._metadata.controller_id

    async def _retry(
        self, attempt: Callable[[], Awaitable[T]], *, except_for: ErrorCode | None = None
    ) -> T:
        """Retry until success, a fatal error or the timeout; raises the last `KafkaError`."""
        deadline = asyncio.get_running_loop().time() + self._timeout_ms / 1000
        mark_stale = self._metadata.mark_stale
        return await retry_until(
            attempt, deadline, self._random, on_failure=mark_stale, except_for=except_for
        )


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.replica_assignments else topic.num_partitions,
        replication_factor=-1 if topic.replica_assignments else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
            for partition, brokers in topic.replica_assignments.items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )


def _config_source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN


def _describe_failure(name: str | None, error_code: int) -> str:
    """Why a topic cannot be described."""
    if error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
        return f"There is no topic {name}."
    return f"The topic {name} cannot be described: {refusal(error_code).code.name}."


def _raise_for(error_code: int, message: str | None, subject: str) -> None:
    raise_for(error_code, message or f"The broker refused the request for {subject}.")
