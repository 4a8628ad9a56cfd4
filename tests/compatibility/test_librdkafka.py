"""confluent-kafka (librdkafka), unmodified, against a broker as a user starts it."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from ..broker_process import BrokerProcess
from .untyped import LibrdkafkaAdmin, librdkafka_admin

TIMEOUT_S = 30


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    # One record says that it is of 2023: retention by time would take it.
    settings = {"log.retention.ms": "-1"}
    with BrokerProcess.on(tmp_path_factory.mktemp("broker"), settings) as started:
        yield started
    assert "Traceback" not in started.log.read_text()


@pytest.fixture
def admin(broker: BrokerProcess) -> LibrdkafkaAdmin:
    return librdkafka_admin.AdminClient({"bootstrap.servers": broker.bootstrap})


def create(admin: LibrdkafkaAdmin, name: str, partitions: int = 1, **configs: str) -> None:
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    topic = librdkafka_admin.NewTopic(
        name, num_partitions=partitions, replication_factor=1, config=settings
    )
    for made in admin.create_topics([topic]).values():
        made.result(TIMEOUT_S)


def produce(broker: BrokerProcess, topic: str, values: list[bytes], **settings: object) -> None:
    """Produce in order to partition 0; every delivery must be reported as good."""
    failures: list[object] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 5}
        | {name.replace("_", "."): value for name, value in settings.items()}
    )
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    assert failures == []


def consume(consumer: Consumer, count: int) -> list[Message]:
    """That many messages. AssertionError if they do not come in time."""
    messages: list[Message] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(messages) < count:
        assert time.monotonic() < deadline, f"only {len(messages)} of {count} messages came"
        for message in consumer.consume(count - len(messages), 1):
            assert message.error() is None, message.error()
            messages.append(message)
    return messages


def reader(broker: BrokerProcess, topic: str, offset: int = 0, **settings: object) -> Consumer:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False}
        | {name.replace("_", "."): value for name, value in settings.items()}
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    return consumer


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed(
    broker: BrokerProcess, admin: LibrdkafkaAdmin, codec: str
) -> None:
    topic = f"codec-{codec}"
    create(admin, topic)
    values = [b"%d " % number + b"x" * (number % 700) for number in range(3_000)]
    produce(broker, topic, values, compression_type=codec, acks="all")
    consumer = reader(broker, topic)
    messages = consume(consumer, len(values))
    consumer.close()
    assert [message.value() for message in messages] == values
    assert [message.offset() for message in messages] == list(range(len(values)))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(
    broker: BrokerProcess, admin: LibrdkafkaAdmin, acks: str
) -> None:
    topic = f"acks-{acks}"
    create(admin, topic)
    produce(broker, topic, [b"1", b"2", b"3"], acks=acks)
    consumer = reader(broker, topic)
    assert [message.value() for message in consume(consumer, 3)] == [b"1", b"2", b"3"]
    consumer.close()


def test_an_idempotent_producer(broker: BrokerProcess, admin: LibrdkafkaAdmin) -> None:
    create(admin, "idempotent")
    values = [b"%d" % number for number in range(5_000)]
    produce(broker, "idempotent", values, enable_idempotence=True)
    consumer = reader(broker, "idempotent", isolation_level="read_committed")
    assert [message.value() for message in consume(consumer, len(values))] == values
    consumer.close()


def test_keys_headers_timestamps_and_nothing_at_all(
    broker: BrokerProcess, admin: LibrdkafkaAdmin
) -> None:
    create(admin, "shapes")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    headers: list[tuple[str, str | bytes | None]] = [("a", b"1"), ("a", b"2"), ("none", None)]
    producer.produce("shapes", b"v", b"k", headers=headers, timestamp=1_700_000_000_123)
    producer.produce("shapes", None, b"tombstone")
    producer.produce("shapes", b"", None)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = reader(broker, "shapes")
    first, second, third = consume(consumer, 3)
    consumer.close()
    assert (first.key(), first.value()) == (b"k", b"v")
    assert first.headers() == headers
    assert first.timestamp()[1] == 1_700_000_000_123
    assert (second.key(), second.value()) == (b"tombstone", None)
    assert (third.key(), third.value()) == (None, b"")


def test_a_message_that_is_too_large_is_refused(
    broker: BrokerProcess, admin: LibrdkafkaAdmin
) -> None:
    create(admin, "small", max_message_bytes="1000")
    errors: list[int] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        errors.append(0 if error is None else error.code())

    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("small", b"x" * 2_000, on_delivery=delivered)
    producer.flush(TIMEOUT_S)
    assert errors == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_a_topic_is_made_when_it_is_first_used(broker: BrokerProcess) -> None:
    produce(broker, "made-by-use", [b"first"])
    consumer = reader(broker, "made-by-use")
    assert consume(consumer, 1)[0].value() == b"first"
    consumer.close()


def test_offsets_by_timestamp_and_at_the_ends(
    broker: BrokerProcess, admin: LibrdkafkaAdmin
) -> None:
    create(admin, "times", retention_ms="-1")  # the timestamps are of 1970
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(10):
        producer.produce("times", b"v", timestamp=1_000_000 + 1_000 * number)
        producer.flush(TIMEOUT_S)
    consumer = reader(broker, "times")
    assert consumer.get_watermark_offsets(TopicPartition("times", 0), TIMEOUT_S) == (0, 10)
    (found,) = consumer.offsets_for_times([TopicPartition("times", 0, 1_004_500)], TIMEOUT_S)
    consumer.close()
    assert found.offset == 5
    partition = TopicPartition("times", 0)
    latest = librdkafka_admin.OffsetSpec.max_timestamp()
    listed = admin.list_offsets({partition: latest})
    assert listed[partition].result(TIMEOUT_S).offset == 9


def test_a_group_goes_on_where_it_stopped(broker: BrokerProcess, admin: LibrdkafkaAdmin) -> None:
    create(admin, "grouped", 3)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(300):
        producer.produce("grouped", b"%d" % number, b"%d" % number)
    assert producer.flush(TIMEOUT_S) == 0
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "goes-on",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    seen: list[bytes | None] = []
    for count in (100, 200):
        consumer = Consumer(settings)
        consumer.subscribe(["grouped"])
        seen += [message.value() for message in consume(consumer, count)]
        consumer.commit(asynchronous=False)
        consumer.close()
    assert sorted(seen, key=lambda value: int(value or b"-1")) == [b"%d" % n for n in range(300)]


def test_topics_grow_are_described_and_go(broker: BrokerProcess, admin: LibrdkafkaAdmin) -> None:
    create(admin, "administered", 1, retention_ms="60000")
    with pytest.raises(KafkaException) as caught:
        create(admin, "administered")
    assert caught.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    for grown in admin.create_partitions(
        [librdkafka_admin.NewPartitions("administered", 4)]
    ).values():
        grown.result(TIMEOUT_S)
    assert len(admin.list_topics("administered", TIMEOUT_S).topics["administered"].partitions) == 4
    resource = librdkafka_admin.ConfigResource("topic", "administered")
    described = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    assert described["retention.ms"].value == "60000"
    for gone in admin.delete_topics(["administered"]).values():
        gone.result(TIMEOUT_S)
    assert "administered" not in admin.list_topics(timeout=TIMEOUT_S).topics
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    assert [node.id for node in cluster.nodes] == [0]
