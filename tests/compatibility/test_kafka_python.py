"""kafka-python, unmodified, against a broker as a user starts it.

The package publishes no types; what is used of it is described here.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, cast

import pytest

from ..broker_process import BrokerProcess
from ..waiting import wait_until
from .untyped import kafka_python, kafka_python_admin, kafka_python_errors

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")

TIMEOUT_S = 60


class Metadata(Protocol):
    """Where a record went."""

    offset: int
    partition: int


class Sent(Protocol):
    """The promise of it."""

    def get(self, timeout: float) -> Metadata: ...


class Producer(Protocol):
    """What is used of `kafka.KafkaProducer`."""

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: list[tuple[str, bytes]] | None = None,
        timestamp_ms: int | None = None,
    ) -> Sent: ...
    def flush(self, timeout: float) -> None: ...
    def close(self) -> None: ...


class Record(Protocol):
    """A consumed record."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp: int


class Consumer(Protocol):
    """What is used of `kafka.KafkaConsumer`."""

    def poll(self, timeout_ms: int) -> dict[object, list[Record]]: ...
    def assign(self, partitions: Iterable[object]) -> None: ...
    def subscribe(self, topics: list[str]) -> None: ...
    def seek(self, partition: object, offset: int) -> None: ...
    def seek_to_beginning(self, *partitions: object) -> None: ...
    def commit(self) -> None: ...
    def beginning_offsets(self, partitions: list[object]) -> dict[object, int]: ...
    def end_offsets(self, partitions: list[object]) -> dict[object, int]: ...
    def close(self) -> None: ...


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    # One record says that it is of 2023: retention by time would take it.
    settings = {"log.retention.ms": "-1"}
    with BrokerProcess.on(tmp_path_factory.mktemp("broker"), settings) as started:
        yield started
    assert "Traceback" not in started.log.read_text()


def producer_of(broker: BrokerProcess, **settings: object) -> Producer:
    make = cast("Callable[..., Producer]", kafka_python.KafkaProducer)
    return make(bootstrap_servers=broker.bootstrap, **settings)


def consumer_of(broker: BrokerProcess, **settings: object) -> Consumer:
    make = cast("Callable[..., Consumer]", kafka_python.KafkaConsumer)
    return make(bootstrap_servers=broker.bootstrap, **settings)


def read(consumer: Consumer, count: int) -> list[Record]:
    records: list[Record] = []

    def enough() -> bool:
        for batch in consumer.poll(500).values():
            records.extend(batch)
        return len(records) >= count

    wait_until(enough, TIMEOUT_S, lambda: f"{len(records)} of {count} records came")
    return records


@pytest.mark.parametrize("codec", [None, "gzip"])
def test_what_is_produced_is_consumed(broker: BrokerProcess, codec: str | None) -> None:
    topic = f"python-{codec}"
    values = [b"%d " % number + b"x" * (number % 500) for number in range(1_000)]
    producer = producer_of(broker, compression_type=codec, linger_ms=5, acks="all")
    for value in values:
        producer.send(topic, value)
    producer.flush(TIMEOUT_S)
    producer.close()
    consumer = consumer_of(broker)
    partition = kafka_python.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    records = read(consumer, len(values))
    assert [record.value for record in records] == values
    assert [record.offset for record in records] == list(range(len(values)))
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: len(values)}
    consumer.close()


def test_keys_headers_and_timestamps(broker: BrokerProcess) -> None:
    producer = producer_of(broker)
    sent = producer.send(
        "python-shapes", b"v", key=b"k", headers=[("h", b"1")], timestamp_ms=1_700_000_000_123
    )
    assert sent.get(TIMEOUT_S).offset == 0
    assert producer.send("python-shapes", None, key=b"tombstone").get(TIMEOUT_S).offset == 1
    producer.close()
    consumer = consumer_of(broker, auto_offset_reset="earliest")
    consumer.assign([kafka_python.TopicPartition("python-shapes", 0)])
    first, second = read(consumer, 2)
    consumer.close()
    assert (first.key, first.value, list(first.headers)) == (b"k", b"v", [("h", b"1")])
    assert first.timestamp == 1_700_000_000_123
    assert (second.key, second.value) == (b"tombstone", None)


def test_an_idempotent_producer(broker: BrokerProcess) -> None:
    producer = producer_of(broker, enable_idempotence=True, acks="all")
    sent = [producer.send("python-idempotent", b"%d" % number) for number in range(500)]
    assert [each.get(TIMEOUT_S).offset for each in sent] == list(range(500))
    producer.close()


def test_a_group_goes_on_where_it_stopped(broker: BrokerProcess) -> None:
    producer = producer_of(broker)
    for number in range(200):
        producer.send("python-grouped", b"%d" % number)
    producer.flush(TIMEOUT_S)
    producer.close()
    seen: list[bytes | None] = []
    while len(seen) < 200:
        consumer = consumer_of(
            broker,
            group_id="python-goes-on",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=50,
        )
        consumer.subscribe(["python-grouped"])
        seen += [record.value for record in read(consumer, 1)]
        consumer.commit()
        consumer.close()
    assert seen == [b"%d" % number for number in range(200)]


def test_topics_are_made_described_and_deleted(broker: BrokerProcess) -> None:
    admin = kafka_python.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    topic = kafka_python_admin.NewTopic(
        "python-administered", 2, 1, topic_configs={"retention.ms": "60000"}
    )
    admin.create_topics([topic])
    with pytest.raises(kafka_python_errors.TopicAlreadyExistsError):
        admin.create_topics([topic])
    assert "python-administered" in admin.list_topics()
    admin.delete_topics(["python-administered"])
    assert "python-administered" not in admin.list_topics()
    admin.close()
