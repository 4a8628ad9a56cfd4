"""Children by fork, which have all that the process has, also the broker's thread and sockets."""

import multiprocessing
import os

import pytest
from kafka import KafkaProducer
from kafka_clients import WITHIN_S, produce, stored

from tierlog.testing import Broker

# Python warns of it since 3.12: a client of librdkafka has threads, as the broker has.
pytestmark = pytest.mark.filterwarnings("ignore:This process .*:DeprecationWarning")

fork = multiprocessing.get_context("fork")


def send(address, topic, value):
    producer = KafkaProducer(bootstrap_servers=address)
    producer.send(topic, value).get(WITHIN_S)
    producer.close()


def test_a_child_sends(tierlog_broker, tierlog_topic):
    arguments = (tierlog_broker.bootstrap_servers, tierlog_topic, b"one pear")
    child = fork.Process(target=send, args=arguments)
    child.start()
    child.join(WITHIN_S)
    assert child.exitcode == 0
    assert stored(tierlog_broker, tierlog_topic) == [b"one pear"]
    child.close()


def test_a_pool_sends(tierlog_broker, tierlog_topic):
    address = tierlog_broker.bootstrap_servers
    with fork.Pool(2) as pool:
        pool.starmap(send, [(address, tierlog_topic, b"%d" % number) for number in range(4)])
        pool.close()
        pool.join()
    assert sorted(stored(tierlog_broker, tierlog_topic)) == [b"0", b"1", b"2", b"3"]


def test_a_child_that_ends_leaves_the_broker_alone(tierlog_broker, tierlog_topic):
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    produce(tierlog_broker, tierlog_topic, b"one pear")
    assert stored(tierlog_broker, tierlog_topic) == [b"one pear"]


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_a_broker_restarts_while_a_child_lives(end):
    with Broker() as broker:
        broker.create_topic("orders")
        produce(broker, "orders", b"one pear")
        until, done = fork.Pipe(duplex=False)
        child = fork.Process(target=until.recv)
        child.start()
        if end == "kill":
            broker.kill()
        broker.restart()
        assert stored(broker, "orders") == [b"one pear"]
        done.send(None)
        child.join(WITHIN_S)
        child.close()
        until.close()
        done.close()
