"""A file system that is none, by pyfakefs; the broker's files are real."""

import os
from pathlib import Path

from kafka_clients import consume, produce, stored

from tierlog.testing import Broker


def test_the_content_of_a_file_is_sent(tierlog_broker, tierlog_topic, fs):
    fs.create_file("/orders/1.txt", contents="one pear")
    produce(tierlog_broker, tierlog_topic, Path("/orders/1.txt").read_bytes())
    assert stored(tierlog_broker, tierlog_topic) == [b"one pear"]


def test_what_arrives_is_written(fs, tierlog_broker, tierlog_topic, tierlog_group):
    produce(tierlog_broker, tierlog_topic, b"one pear")
    (value,) = consume(tierlog_broker, tierlog_topic, tierlog_group, 1)
    Path("/orders").mkdir()
    Path("/orders/1.txt").write_bytes(value)
    assert os.listdir("/orders") == ["1.txt"]


def test_records_go_to_the_tier_and_come_back(tierlog_broker, tierlog_topic, fs):
    produce(tierlog_broker, tierlog_topic, b"one pear")
    tierlog_broker.offload(tierlog_topic)
    assert stored(tierlog_broker, tierlog_topic) == [b"one pear"]


def test_topics_come_and_go(tierlog_broker, fs):
    for number in range(3):
        tierlog_broker.create_topic(f"fake-{number}")
        tierlog_broker.delete_topic(f"fake-{number}")
    assert not os.path.exists(tierlog_broker.directory)


def test_a_broker_starts_in_it(fs):
    with Broker(tier="memory") as broker:
        broker.create_topic("orders")
        produce(broker, "orders", b"one pear")
        broker.restart()
        assert stored(broker, "orders") == [b"one pear"]


def test_after_it(tierlog_broker, tierlog_topic):
    produce(tierlog_broker, tierlog_topic, b"one pear")
    assert stored(tierlog_broker, tierlog_topic) == [b"one pear"]
