"""`tierlog.testing.Broker` in the process of a test, as users have it."""

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tierlog.testing import Broker, BrokerError, OnlyTierlogError
from tierlog.tests.testing.broker_clients import TIMEOUT_S, produce, values


def local_segments(broker: Broker, topic: str) -> list[str]:
    """The segments of partition 0 that are on the disk and not doomed."""
    return sorted(path.name for path in Path(broker.directory, "data", f"{topic}-0").glob("*.log"))


@pytest.fixture(scope="module")
def tiered() -> Iterator[Broker]:
    with Broker(tier="memory") as broker:
        yield broker


def test_a_client_produces_and_consumes_and_nothing_is_left() -> None:
    threads = set(threading.enumerate())
    with Broker() as broker:
        directory = broker.directory
        broker.create_topic("orders", partitions=2)
        produce(broker, "orders", [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")])
        consumer = Consumer(broker.config(group_id="g", auto_offset_reset="earliest"))
        consumer.subscribe(["orders"])
        received = [consumer.poll(TIMEOUT_S) for _ in range(3)]
        consumer.close()
        assert {message.value() for message in received if message} == {b"1", b"2", b"3"}
        by_key = [record.value for record in broker.records("orders") if record.key == b"a"]
        assert by_key == [b"1", b"3"]
    assert not os.path.exists(directory)
    assert not {each for each in threading.enumerate() if "tierlog" in each.name} - threads


async def produce_and_read() -> str:
    """The body of the next test; returns the directory of the broker."""
    async with Broker() as broker:
        directory = broker.directory
        broker.create_topic("orders")
        await asyncio.to_thread(produce, broker, "orders", [(b"k", b"v")])
        assert values(broker, "orders") == [b"v"]
    return directory


def test_a_coroutine_has_a_broker_too() -> None:
    assert not os.path.exists(asyncio.run(produce_and_read()))


def test_two_brokers_do_not_see_each_other() -> None:
    with Broker() as one, Broker() as other:
        assert one.port != other.port
        one.create_topic("orders")
        with pytest.raises(BrokerError, match="orders"):
            other.records("orders")


def test_a_restart_keeps_the_address_and_the_records() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        produce(broker, "orders", [(b"k", b"v")])
        address = broker.bootstrap_servers
        broker.restart()
        assert broker.bootstrap_servers == address
        assert values(broker, "orders") == [b"v"]


def test_what_a_kill_leaves_is_what_was_written_and_no_clean_stop() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        produce(broker, "orders", [(b"k", b"v")])
        broker.kill()
        names = os.listdir(f"{broker.directory}/data")
        assert ".kafka_cleanshutdown" not in names, names
        with pytest.raises(BrokerError, match="does not run"):
            broker.records("orders")
        broker.restart()
        assert values(broker, "orders") == [b"v"]
        broker.restart()
        assert values(broker, "orders") == [b"v"]


def test_offloaded_records_are_read_from_the_tier(tiered: Broker) -> None:
    tiered.create_topic("past")
    sent = [b"%d" % number for number in range(100)]
    produce(tiered, "past", [(b"k", value) for value in sent])
    tiered.offload("past")
    assert local_segments(tiered, "past") == [f"{len(sent):020d}.log"]
    assert values(tiered, "past") == sent
    tiered.restart()
    assert values(tiered, "past") == sent


def test_retention_is_applied_at_once_here_and_in_the_tier(tiered: Broker) -> None:
    tiered.create_topic("both", retention_ms=3_600_000)
    tiered.create_topic("local", retention_ms=3_600_000, remote_storage_enable=False)
    old_ms = 1_000_000_000_000
    producer = Producer(tiered.config(linger_ms=0))
    for topic in ("both", "local"):
        producer.produce(topic, b"old", b"k", timestamp=old_ms)
    assert producer.flush(TIMEOUT_S) == 0
    tiered.offload("both")
    produce(tiered, "both", [(b"k", b"new")])
    tiered.apply_retention("both")
    assert values(tiered, "both") == [b"new"]
    tiered.apply_retention()
    assert values(tiered, "local") == []


def test_compaction_leaves_the_last_value_of_each_key() -> None:
    with Broker() as broker:
        broker.create_topic("table", cleanup_policy="compact")
        produce(broker, "table", [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", b"2")])
        broker.compact("table")
        assert values(broker, "table") == [b"2", b"2"]
        produce(broker, "table", [(b"a", b"3")])
        broker.compact()
        assert values(broker, "table") == [b"2", b"3"]


def test_a_refusal_says_what_to_do(tiered: Broker) -> None:
    tiered.create_topic("refused", cleanup_policy="compact")
    with pytest.raises(BrokerError, match="already exists"):
        tiered.create_topic("refused")
    with pytest.raises(BrokerError, match=r"remote\.storage\.enable=true"):
        tiered.offload("refused")
    with pytest.raises(BrokerError, match="no topic nowhere"):
        tiered.offload("nowhere")
    with Broker() as broker:
        broker.create_topic("plain")
        with pytest.raises(BrokerError, match="tier='memory'"):
            broker.offload("plain")
        with pytest.raises(BrokerError, match=r"cleanup\.policy=compact"):
            broker.compact("plain")
    with pytest.raises(BrokerError, match=r"log\.retention\.hours"):
        Broker({"log.retention.hours": "soon"}).start()
    with pytest.raises(BrokerError, match="not started"):
        Broker().restart()


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_in_the_body_stops_the_broker_and_passes(error: type[BaseException]) -> None:
    directory, threads = "", set(threading.enumerate())
    with pytest.raises(error), Broker() as broker:
        directory = broker.directory
        raise error
    assert not os.path.exists(directory)
    assert not {each for each in threading.enumerate() if "tierlog" in each.name} - threads


def test_a_directory_of_yours_stays_and_is_used_again(tmp_path: Path) -> None:
    for expected in ([b"v"], [b"v", b"v"]):
        with Broker(directory=str(tmp_path)) as broker:
            if expected == [b"v"]:
                broker.create_topic("orders")
            produce(broker, "orders", [(b"k", b"v")])
            assert values(broker, "orders") == expected


def test_a_cluster_that_runs_already_has_topics_and_records_but_no_kill() -> None:
    with Broker() as running, Broker.external(running.bootstrap_servers) as broker:
        broker.create_topic("orders")
        produce(broker, "orders", [(b"k", b"v")])
        assert values(broker, "orders") == values(running, "orders") == [b"v"]
        broker.delete_topic("orders")
        broker.delete_topic("orders")
        for act in (broker.kill, broker.restart, broker.compact, lambda: broker.directory):
            with pytest.raises(OnlyTierlogError, match=running.bootstrap_servers):
                act()
