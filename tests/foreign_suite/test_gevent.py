"""Greenlets, by gevent: beside the broker, and in a program that gevent has patched throughout."""

import subprocess
import sys

import gevent
import gevent.threadpool
from kafka_clients import WITHIN_S, produce, stored

PATCHED = """
from gevent import monkey
monkey.patch_all()
import gevent, sys
from kafka import KafkaConsumer, KafkaProducer

address, topic = sys.argv[1:]

def send(number):
    producer = KafkaProducer(bootstrap_servers=address)
    producer.send(topic, b"%d" % number).get(60)
    producer.close()

gevent.joinall([gevent.spawn(send, number) for number in range(3)], raise_error=True)
consumer = KafkaConsumer(topic, bootstrap_servers=address, auto_offset_reset="earliest")
print(sorted(next(consumer).value for _ in range(3)))
consumer.close()
"""
PATCHED_BROKER = """
from gevent import monkey
monkey.patch_all()
from kafka import KafkaProducer
from tierlog.testing import Broker

with Broker() as broker:
    broker.create_topic("orders")
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    producer.send("orders", b"one pear").get(60)
    producer.close()
    print([record.value for record in broker.records("orders")])
"""


def test_greenlets_send(tierlog_broker, tierlog_topic):
    sending = [
        gevent.spawn(produce, tierlog_broker, tierlog_topic, b"%d" % number) for number in range(3)
    ]
    gevent.joinall(sending, raise_error=True)
    assert sorted(stored(tierlog_broker, tierlog_topic)) == [b"0", b"1", b"2"]


def test_threads_of_gevent_send(tierlog_broker, tierlog_topic):
    pool = gevent.threadpool.ThreadPool(2)
    sending = [
        pool.spawn(produce, tierlog_broker, tierlog_topic, b"%d" % number) for number in range(4)
    ]
    gevent.wait(sending)
    pool.kill()
    assert len(stored(tierlog_broker, tierlog_topic)) == 4


def test_a_greenlet_calls_the_broker(tierlog_broker, tierlog_topic):
    produce(tierlog_broker, tierlog_topic, b"one pear")
    tierlog_broker.offload(tierlog_topic)
    assert gevent.spawn(stored, tierlog_broker, tierlog_topic).get() == [b"one pear"]


def output(program, *arguments):
    command = [sys.executable, "-c", program, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_a_patched_program(tierlog_broker, tierlog_topic):
    printed = output(PATCHED, tierlog_broker.bootstrap_servers, tierlog_topic)
    assert printed == "[b'0', b'1', b'2']"


def test_a_patched_program_with_a_broker():
    assert output(PATCHED_BROKER) == "[b'one pear']"
