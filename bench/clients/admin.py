"""What a benchmark asks of a cluster beside its load: topics, and settings while it runs.

Through librdkafka's administrator, which speaks to any broker with Kafka's protocol.
"""

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar, cast

from confluent_kafka import Consumer, KafkaException, TopicPartition, admin as client
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from concurrent.futures import Future

_TIMEOUT_S = 30.0
_LAST_RECORD_S = 2.0
_POLL_S = 0.02

Answer = TypeVar("Answer")


def _admin(bootstrap: str) -> client.AdminClient:
    # What fails shows in an answer; the lines about brokers that went away are noise.
    return client.AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})


def _wait_for(answers: Mapping[str, "Future[Answer]"]) -> None:
    """Wait for each; the first that was refused raises its KafkaException."""
    for answer in answers.values():
        answer.result(_TIMEOUT_S)


def create_topic(
    bootstrap: str,
    topic: str,
    config: Mapping[str, str] | None = None,
    *,
    partitions: int = 1,
    replication_factor: int = 1,
) -> None:
    """Create a topic and wait until each of its partitions has a leader that serves it.

    Raises KafkaException when the broker refuses, TimeoutError when no leader is told of.
    """
    admin = _admin(bootstrap)
    new_topic = NewTopic(
        topic,
        num_partitions=partitions,
        replication_factor=replication_factor,
        config=dict(config or {}),
    )
    # The client publishes its futures without the type of what they hold.
    created = admin.create_topics([new_topic])  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    _wait_for(cast("dict[str, Future[None]]", created))
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
    """Kafka tells who leads a partition before that broker has made its log, and refuses what comes
    until then; a client that sends on meanwhile gets its batches into another order.
    """
    try:
        end_offsets(bootstrap, topic, partitions)
    except KafkaException:
        return False
    return True


def led_partitions(bootstrap: str, topic: str, admin: client.AdminClient | None = None) -> int:
    """How many partitions of the topic have a leader; 0 where there is no such topic."""
    # All topics are asked for: asking for one that is not there may create it.
    metadata = (admin or _admin(bootstrap)).list_topics(timeout=_TIMEOUT_S)
    topic_metadata = metadata.topics.get(topic)
    if topic_metadata is None:
        return 0
    return sum(each.leader >= 0 for each in topic_metadata.partitions.values())


def delete_topic(bootstrap: str, *topics: str) -> None:
    """Delete topics, so that what was measured does not fill the disk and the page cache."""
    admin = _admin(bootstrap)
    # See create_topic.
    deleted = admin.delete_topics(list(topics))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    _wait_for(cast("dict[str, Future[None]]", deleted))


@contextmanager
def fresh_topic(
    bootstrap: str, config: Mapping[str, str], partitions: int = 1
) -> Generator[str, None, None]:
    """A topic of this name alone, for one run; it is deleted however the run ends."""
    topic = f"bench-{time.monotonic_ns()}"
    create_topic(bootstrap, topic, config, partitions=partitions)
    try:
        yield topic
    except BaseException:
        # What went wrong is the news, not that the broker may be gone as well.
        with suppress(KafkaException):
            delete_topic(bootstrap, topic)
        raise
    delete_topic(bootstrap, topic)


def end_offsets(bootstrap: str, topic: str, partitions: int = 1) -> list[int]:
    """The offset after the last record that a consumer may read, of each partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "tierlog-bench"})
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
    """Whether each partition ends at its offset, as far as the broker tells.

    Some brokers tell an end that lies below their last records. There the last one is asked for.
    """
    ends = end_offsets(bootstrap, topic, len(expected))
    return all(
        end == offset
        or (end < offset and _has_record(bootstrap, TopicPartition(topic, index, offset - 1)))
        for index, (end, offset) in enumerate(zip(ends, expected, strict=True))
    )


def _has_record(bootstrap: str, place: TopicPartition) -> bool:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "tierlog-bench"})
    try:
        consumer.assign([place])
        messages = consumer.consume(1, timeout=_LAST_RECORD_S)
        return any(message.offset() == place.offset for message in messages)
    finally:
        consumer.close()


def holds(bootstrap: str, topic: str, records: int, partitions: int = 1) -> bool:
    """Whether the topic is there and its partitions end after so many records together."""
    if led_partitions(bootstrap, topic) < partitions:
        return False
    return sum(end_offsets(bootstrap, topic, partitions)) == records


def alter_topic(bootstrap: str, topic: str, settings: Mapping[str, str]) -> None:
    """Change settings of a topic; the others stay."""
    _alter(_admin(bootstrap), "topic", (topic,), settings)


def alter_brokers(bootstrap: str, settings: Mapping[str, str]) -> None:
    """Change settings of every broker of the cluster; the others stay."""
    admin = _admin(bootstrap)
    brokers = admin.list_topics(timeout=_TIMEOUT_S).brokers
    _alter(admin, "broker", [str(broker) for broker in brokers], settings)


def _alter(
    admin: client.AdminClient, kind: str, names: Iterable[str], settings: Mapping[str, str]
) -> None:
    # The client's admin module exports these, and its annotations forget to say so.
    entry_class = client.ConfigEntry  # type: ignore[attr-defined]  # pyright: ignore[reportPrivateImportUsage]
    operation = client.AlterConfigOpType.SET  # type: ignore[attr-defined]  # pyright: ignore[reportPrivateImportUsage]
    resource_class = client.ConfigResource  # type: ignore[attr-defined]  # pyright: ignore[reportPrivateImportUsage]
    for name in names:
        entries = [entry_class(*each, incremental_operation=operation) for each in settings.items()]
        resource = resource_class(kind, name, incremental_configs=entries)
        # See create_topic.
        answers = admin.incremental_alter_configs([resource])  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        _wait_for(cast("dict[str, Future[None]]", answers))
