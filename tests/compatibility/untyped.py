"""What the tests use of the client packages' admin sides, which publish few types or wrong ones."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from importlib import import_module
from typing import Protocol, cast


class Named(Protocol):
    """Something with a value."""

    value: str
    offset: int
    id: int
    nodes: "Sequence[Named]"


class LibrdkafkaTopic(Protocol):
    """A topic's metadata."""

    partitions: Mapping[int, object]


class LibrdkafkaTopics(Protocol):
    """All topics' metadata."""

    topics: Mapping[str, LibrdkafkaTopic]


class LibrdkafkaAdmin(Protocol):
    """`confluent_kafka.admin.AdminClient`."""

    def create_topics(self, topics: list[object]) -> dict[str, Future[None]]: ...
    def create_partitions(self, partitions: list[object]) -> dict[str, Future[None]]: ...
    def delete_topics(self, topics: list[str]) -> dict[str, Future[None]]: ...
    def list_topics(self, topic: str | None = None, timeout: float = -1) -> LibrdkafkaTopics: ...
    def describe_cluster(self) -> Future[Named]: ...
    def describe_configs(
        self, resources: list[object]
    ) -> dict[object, Future[Mapping[str, Named]]]: ...
    def list_offsets(self, queries: Mapping[object, object]) -> dict[object, Future[Named]]: ...


class OffsetSpecs(Protocol):
    """`confluent_kafka.admin.OffsetSpec`."""

    def max_timestamp(self) -> object: ...


class LibrdkafkaAdminModule(Protocol):
    """`confluent_kafka.admin`."""

    AdminClient: Callable[[dict[str, str]], LibrdkafkaAdmin]
    NewTopic: Callable[..., object]
    NewPartitions: Callable[[str, int], object]
    ConfigResource: Callable[[str, str], object]
    OffsetSpec: OffsetSpecs


class KafkaPythonAdmin(Protocol):
    """`kafka.KafkaAdminClient`."""

    def create_topics(self, topics: list[object]) -> object: ...
    def delete_topics(self, topics: list[str]) -> object: ...
    def list_topics(self) -> list[str]: ...
    def close(self) -> None: ...


class KafkaPythonModule(Protocol):
    """`kafka`, with what lies in its sub-modules as well."""

    KafkaProducer: Callable[..., object]
    KafkaConsumer: Callable[..., object]
    KafkaAdminClient: Callable[..., KafkaPythonAdmin]
    TopicPartition: Callable[[str, int], object]


class KafkaPythonAdminModule(Protocol):
    """`kafka.admin`."""

    NewTopic: Callable[..., object]


class KafkaPythonErrors(Protocol):
    """`kafka.errors`."""

    TopicAlreadyExistsError: type[Exception]


librdkafka_admin = cast("LibrdkafkaAdminModule", import_module("confluent_kafka.admin"))

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 calls old.
    warnings.simplefilter("ignore", DeprecationWarning)
    kafka_python = cast("KafkaPythonModule", import_module("kafka"))
    kafka_python_admin = cast("KafkaPythonAdminModule", import_module("kafka.admin"))
    kafka_python_errors = cast("KafkaPythonErrors", import_module("kafka.errors"))
