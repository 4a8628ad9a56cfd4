"""`Broker.kill()` in the process of a test: what was acknowledged is there after it, as it is after
the SIGKILL of a broker that is a process."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tierlog.testing import Broker, BrokerError
from tierlog.tests.testing.broker_clients import TIMEOUT_S, produce, values
from tierlog.tests.testing.busy_connections import BusyConnections
from tierlog.tests.waiting import wait_until

KILLS = 5


@pytest.mark.parametrize("tier", [None, "memory"])
def test_nothing_that_was_acknowledged_is_lost_by_a_kill(tier: str | None) -> None:
    with Broker(tier=tier) as broker:
        broker.create_topic("orders")
        for _ in range(KILLS):
            with BusyConnections(broker, "orders") as busy:
                broker.kill()
            broker.restart()
            stored = {record.offset for record in broker.records("orders")}
            assert sorted(set(busy.offsets) - stored) == []


def test_a_kill_while_segments_are_on_their_way_to_the_tier_loses_nothing() -> None:
    with Broker(tier="memory") as broker:
        broker.create_topic("orders")
        for _ in range(KILLS):
            is_over = threading.Event()

            def offload(is_over: threading.Event = is_over) -> None:
                while not is_over.is_set():
                    try:
                        broker.offload("orders")
                    except BrokerError:
                        # It is killed meanwhile.
                        is_over.wait(0.01)

            offloading = threading.Thread(target=offload)
            with BusyConnections(broker, "orders") as busy:
                offloading.start()
                is_over.wait(0.05)
                broker.kill()
            is_over.set()
            offloading.join(TIMEOUT_S)
            broker.restart()
            stored = {record.offset for record in broker.records("orders")}
            assert sorted(set(busy.offsets) - stored) == []


def test_an_idempotent_producer_goes_on_after_kills_and_none_of_its_records_is_lost() -> None:
    with Broker(tier="memory") as broker:
        broker.create_topic("orders")
        acknowledged: list[int] = []
        refused: list[str] = []
        producer = Producer(broker.config(enable_idempotence=True, linger_ms=1))

        def send(number: int) -> None:
            def is_done(error: object, _message: object) -> None:
                if error is None:
                    acknowledged.append(number)
                else:
                    refused.append(str(error))

            producer.produce("orders", b"%d" % number, on_delivery=is_done)

        number = 0
        for _ in range(KILLS):
            enough = len(acknowledged) + 100
            while len(acknowledged) < enough and not refused:
                send(number)
                number += 1
                producer.poll(0.001)
            killing = threading.Thread(target=broker.kill)
            killing.start()
            while killing.is_alive():
                send(number)
                number += 1
                producer.poll(0.001)
            broker.restart()
        assert producer.flush(TIMEOUT_S) == 0
        assert refused == []
        assert sorted(values(broker, "orders"), key=lambda value: int(value or b"")) == [
            b"%d" % each for each in range(number)
        ]


def test_committed_offsets_and_transactions_are_there_after_a_kill() -> None:
    with Broker(tier="memory") as broker:
        broker.create_topic("orders")
        producer = Producer(broker.config(transactional_id="shop"))
        producer.init_transactions(TIMEOUT_S)
        for number in range(KILLS):
            producer.begin_transaction()
            producer.produce("orders", b"%d" % number)
            producer.commit_transaction(TIMEOUT_S)
            group = {"group_id": "billing", "enable_auto_commit": False}
            consumer = Consumer(broker.config(**group))
            place = TopicPartition("orders", 0, number + 1)
            consumer.commit(offsets=[place], asynchronous=False)
            broker.kill()
            broker.restart()
            assert values(broker, "orders") == [b"%d" % each for each in range(number + 1)]
            (committed,) = consumer.committed([place], TIMEOUT_S)
            consumer.close()
            assert committed.offset == number + 1


def test_a_kill_leaves_the_objects_of_the_tier_as_they_are() -> None:
    with Broker(tier="memory") as broker:
        broker.create_topic("orders")
        produce(broker, "orders", [(b"k", b"v")] * 10)
        broker.offload("orders")
        tier = Path(broker.directory, "tier")
        before = sorted(path.relative_to(tier) for path in tier.rglob("*"))
        broker.kill()
        assert sorted(path.relative_to(tier) for path in tier.rglob("*")) == before
        broker.restart()
        assert values(broker, "orders") == [b"v"] * 10


@pytest.mark.parametrize("end", [Broker.kill, Broker.restart])
def test_an_act_that_is_under_way_ends_with_the_broker(end: Callable[[Broker], None]) -> None:
    with Broker(tier="memory") as broker, ThreadPoolExecutor(1) as thread:
        broker.create_topic("orders")
        produce(broker, "orders", [(b"k", b"v")])
        with broker.faults.tier.outage():
            offloading = thread.submit(broker.offload, "orders")
            wait_until(lambda: bool(broker.faults.tier.operations), TIMEOUT_S, "no upload")
            end(broker)
        with pytest.raises(BrokerError, match="stopped before this was done"):
            offloading.result(TIMEOUT_S)
