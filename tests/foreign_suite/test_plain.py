"""Tests as most are: synchronous, with confluent-kafka."""

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka_clients import WITHIN_S, consume, produce, stored


@pytest.fixture(scope="module")
def prices(tierlog_broker):
    """A topic that the tests of this file share."""
    tierlog_broker.create_topic("prices", cleanup_policy="compact")
    yield "prices"
    tierlog_broker.delete_topic("prices")


def test_an_order_arrives(tierlog_broker, tierlog_topic, tierlog_group):
    produce(tierlog_broker, tierlog_topic, b"one pear")
    assert consume(tierlog_broker, tierlog_topic, tierlog_group, 1) == [b"one pear"]


def test_a_topic_is_empty_at_first(tierlog_broker, tierlog_topic):
    assert tierlog_broker.records(tierlog_topic) == []


def test_keys_and_headers_are_kept(tierlog_broker, tierlog_topic):
    producer = Producer(tierlog_broker.config())
    producer.produce(tierlog_topic, b"v", key=b"k", headers={"trace": b"1"})
    producer.flush(WITHIN_S)
    (record,) = tierlog_broker.records(tierlog_topic)
    assert (record.key, record.value) == (b"k", b"v")


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed(tierlog_broker, tierlog_topic, codec):
    producer = Producer(tierlog_broker.config(compression_type=codec))
    producer.produce(tierlog_topic, b"pear" * 100)
    assert producer.flush(WITHIN_S) == 0
    assert stored(tierlog_broker, tierlog_topic) == [b"pear" * 100]


@pytest.mark.tierlog_topic(3)
def test_the_order_of_each_partition(tierlog_broker, tierlog_topic):
    topics = AdminClient(tierlog_broker.config()).list_topics(tierlog_topic).topics
    assert len(topics[tierlog_topic].partitions) == 3


@pytest.mark.parametrize("number", range(3))
def test_each_has_its_own_topic(tierlog_broker, tierlog_topic, number):
    produce(tierlog_broker, tierlog_topic, b"%d" % number)
    assert stored(tierlog_broker, tierlog_topic) == [b"%d" % number]


def test_the_past_is_in_the_tier(tierlog_broker, tierlog_topic, tierlog_group):
    produce(tierlog_broker, tierlog_topic, b"one", b"two")
    tierlog_broker.offload(tierlog_topic)
    produce(tierlog_broker, tierlog_topic, b"three")
    read = consume(tierlog_broker, tierlog_topic, tierlog_group, 3)
    assert read == [b"one", b"two", b"three"]


def test_a_transaction_that_is_aborted(tierlog_broker, tierlog_topic, tierlog_group):
    producer = Producer(tierlog_broker.config(transactional_id=tierlog_group))
    producer.init_transactions(WITHIN_S)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(tierlog_topic, end.__name__.encode())
        end(WITHIN_S)
    assert stored(tierlog_broker, tierlog_topic) == [b"commit_transaction"]


def test_committed_offsets(tierlog_broker, tierlog_topic, tierlog_group):
    produce(tierlog_broker, tierlog_topic, b"one", b"two")
    consumer = Consumer(tierlog_broker.config(group_id=tierlog_group))
    partition = TopicPartition(tierlog_topic, 0, 1)
    consumer.commit(offsets=[partition], asynchronous=False)
    (committed,) = consumer.committed([TopicPartition(tierlog_topic, 0)], WITHIN_S)
    consumer.close()
    assert committed.offset == 1


def test_a_refused_record(tierlog_broker, tierlog_topic):
    tierlog_broker.faults.fail("Produce", "MESSAGE_TOO_LARGE")
    refused = []
    producer = Producer(tierlog_broker.config())
    producer.produce(tierlog_topic, b"v", on_delivery=lambda error, _: refused.append(error))
    producer.flush(WITHIN_S)
    assert refused[0].name() == "MSG_SIZE_TOO_LARGE"


@pytest.mark.parametrize("value", [b"10", b"20"])
def test_a_topic_of_the_module(tierlog_broker, prices, value):
    producer = Producer(tierlog_broker.config())
    producer.produce(prices, value, key=b"pear")
    assert producer.flush(WITHIN_S) == 0
    tierlog_broker.compact(prices)
    assert value in stored(tierlog_broker, prices)
