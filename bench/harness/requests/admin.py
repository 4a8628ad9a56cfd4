"""Administers a cluster for a benchmark: topics, offsets and settings.

It uses librdkafka's admin client, which works with any broker that speaks Kafka's protocol.
"""

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition, admin as client
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from concurrent.futures import Future

_TIMEOUT_S = 30.0
_LAST_RECORD_S = 2.0
_POLL_S = 0.02

Answer = TypeVar("Answer")


def _admin(bootstrap: str) -> client.AdminClient:
    # Failures appear in the results; log lines about brokers that went away are noise.
    return client.AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})


def _wait_for(answers: Mapping[str, "Future[Answer]"]) -> None:
    """Wait for all answers; raises the KafkaException of the first failure."""
    for answer in answers.values():
        answer.result(_TIMEOUT_S)


def create_topic(
    bootstrap: str,
    topic: str,
    config: Mapping[str, str] | None = None,
    *,
    partitions: int = 1,
    replication_factor: int = 1,
    is_new_cluster: bool = False,
) -> None:
    """Create a topic and wait until the leader of each partition serves it.

    In a new cluster, a topic that exists was created by an attempt whose answer was lost.
    Raises KafkaException if the broker refuses, TimeoutError if a partition is not served in time.
    """
    admin = _admin(bootstrap)
    new_topic = NewTopic(
        topic,
        num_partitions=partitions,
        replication_factor=replication_factor,
        config=dict(config or {}),
    )
    # The client does not type the results of its futures.
    created = admin.create_topics([new_topic])  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    try:
        _wait_for(cast("dict[str, Future[None]]", created))
    except KafkaException as error:
        code = cast("KafkaError", error.args[0]).code()
        if not is_new_cluster or code != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    deadline = time.monotonic() + _TIMEOUT_S
    while led_partitions(bootstrap, topic, admin) < partitions:
        if time.monotonic() > deadline:
            raise TimeoutError(f"not every partition of {topic} has a leader")
        time.sleep(_POLL_S)
    while not _is_served(bootstrap, topic, partitions):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not every partition of {topic} is served by its leader")
        time.sleep(_POLL_S)


def _is_served(bootstrap: str, topic: str, partitions: int) -> bool:
    """Whether the leader of every partition answers.

    Kafka's metadata names a leader before that broker has created the log, and requests fail until
    then; a client that keeps sending meanwhile gets its batches reordered.
    """
    try:
        end_offsets(bootstrap, topic, partitions)
    except KafkaException:
        return False
    return True


def led_partitions(bootstrap: str, topic: str, admin: client.AdminClient | None = None) -> int:
    """The number of the topic's partitions with a leader; 0 if there is no such topic."""
    # Request all topics, because requesting a missing one may create it.
    metadata = (admin or _admin(bootstrap)).list_topics(timeout=_TIMEOUT_S)
    topic_metadata = metadata.topics.get(topic)
    if topic_metadata is None:
        return 0
    return sum(partition.leader >= 0 for partition in topic_metadata.partitions.values())


def delete_topic(bootstrap: str, *topics: str) -> None:
    """Delete topics, so that measured data does not fill the disk and the page cache."""
    admin = _admin(bootstrap)
    # See create_topic.
    deleted = admin.delete_topics(list(topics))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    _wait_for(cast("dict[str, Future[None]]", deleted))


@contextmanager
def fresh_topic(
    bootstrap: str, config: Mapping[str, str], partitions: int = 1, replication_factor: int = 1
) -> Generator[str, None, None]:
    """A new topic for one run, which is deleted however the run ends."""
    topic = f"bench-{time.monotonic_ns()}"
    create_topic(
        bootstrap, topic, config, partitions=partitions, replication_factor=replication_factor
    )
    try:
        yield topic
    except BaseException:
        # Raise the original error, even if the broker is gone too.
        with suppress(KafkaException):
            delete_topic(bootstrap, topic)
        raise
    delete_topic(bootstrap, topic)


def end_offsets(bootstrap: str, topic: str, partitions: int = 1) -> list[int]:
    """The high watermark of each partition."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "tierlog-bench", "log_level": 3}
    )
    try:
        ends: list[int] = []
        for index in range(partitions):
            place = TopicPartition(topic, index)
            _, end = consumer.get_watermark_offsets(place, timeout=_TIMEOUT_S)
            ends.append(end)
        return ends
    finally:
        consumer.close()


def ends_at(bootstrap: str, topic: str, expected: Sequence[int]) -> bool:
    """Whether each partition ends at its expected offset.

    Some brokers report an end below their last records, so this then reads the last expected one.
    """
    ends = end_offsets(bootstrap, topic, len(expected))
    return all(
        end == offset
        or (end < offset and _has_record(bootstrap, TopicPartition(topic, index, offset - 1)))
        for index, (end, offset) in enumerate(zip(ends, expected, strict=True))
    )


def _has_record(bootstrap: str, place: TopicPartition) -> bool:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "tierlog-bench", "log_level": 3}
    )
    try:
        consumer.assign([place])
        messages = consumer.consume(1, timeout=_LAST_RECORD_S)
        return any(message.offset() == place.offset for message in messages)
    finally:
        consumer.close()


def holds(bootstrap: str, topic: str, records: int, partitions: int = 1) -> bool:
    """Whether the topic exists and its end offsets add up to `records`."""
    if led_partitions(bootstrap, topic) < partitions:
        return False
    return sum(end_offsets(bootstrap, topic, partitions)) == records


def alter_topic(bootstrap: str, topic: str, settings: Mapping[str, str]) -> None:
    """Change some settings of a topic."""
    _alter(_admin(bootstrap), "topic", (topic,), settings)


def alter_brokers(bootstrap: str, settings: Mapping[str, str]) -> None:
    """Change some settings of every broker in the cluster."""
    admin = _admin(bootstrap)
    brokers = admin.list_topics(timeout=_TIMEOUT_S).brokers
    _alter(admin, "broker", [str(broker) for broker in brokers], settings)


def _alter(
    admin: client.AdminClient, kind: str, names: Iterable[str], settings: Mapping[str, str]
) -> None:
    # The client's admin module exports these, but its annotations do not.
    entry_class = client.ConfigEntry  # type: ignore[attr-defined]  # pyright: ignore[reportPrivateImportUsage]
    operation = client.AlterConfigOpType.SET  # type: ignore[attr-defined]  # pyright: ignore[reportPrivateImportUsage]
    resource_class = client.ConfigResource  # type: ignore[attr-defined]  # pyright: ignore[reportPrivateImportUsage]
    for name in names:
        entries = [entry_class(*each, incremental_operation=operation) for each in settings.items()]
        resource = resource_class(kind, name, incremental_configs=entries)
        # See create_topic.
        answers = admin.incremental_alter_configs([resource])  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        _wait_for(cast("dict[str, Future[None]]", answers))
