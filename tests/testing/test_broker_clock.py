"""A test's broker believes the system's clock, whatever the test does to those of its process."""

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest
import time_machine
from confluent_kafka import Consumer, Producer
from freezegun import freeze_time

from tierlog.testing import Broker
from tierlog.testing.system_clock import SystemClock, monotonic_s
from tierlog.tests.testing.broker_clients import TIMEOUT_S, produce, values

PAST, FUTURE = "2020-01-01", "2035-01-01"
A_DAY_MS = 86_400_000

Travel = Callable[[str], AbstractContextManager[object]]
TRAVELS: dict[str, Travel] = {
    "freezegun": freeze_time,
    "freezegun, ticking": lambda date: freeze_time(date, tick=True),
    "time-machine": lambda date: time_machine.travel(date, tick=False),
    "time-machine, ticking": lambda date: time_machine.travel(date, tick=True),
}


@pytest.fixture(params=TRAVELS.values(), ids=list(TRAVELS))
def travel(request: pytest.FixtureRequest) -> Travel:
    chosen: Travel = request.param
    return chosen


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(tier="memory") as broker:
        yield broker


def _named(request: pytest.FixtureRequest) -> str:
    """A topic that no other test has."""
    name: str = request.node.name
    return re.sub(r"[^a-z0-9]+", "-", name)


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    return broker.create_topic(_named(request))


@pytest.mark.parametrize("date", [PAST, FUTURE])
def test_a_client_in_c_produces_and_its_group_is_formed(
    broker: Broker, topic: str, travel: Travel, date: str
) -> None:
    began_ms = SystemClock().wall_clock_ms()
    with travel(date):
        produce(broker, topic, [(b"k", b"v")])
        consumer = Consumer(broker.config(group_id=topic, auto_offset_reset="earliest"))
        consumer.subscribe([topic])
        message = consumer.poll(TIMEOUT_S)
        consumer.commit(asynchronous=False)
        consumer.close()
        (record,) = broker.records(topic)
    assert message is not None
    assert message.value() == b"v"
    assert began_ms <= record.timestamp <= SystemClock().wall_clock_ms()


@pytest.mark.parametrize("date", [PAST, FUTURE])
def test_records_from_any_time_are_stored_and_stay_whatever_is_copied_and_expires(
    broker: Broker, topic: str, travel: Travel, date: str
) -> None:
    with travel(date):
        moment_ms = round(time.time() * 1000)
        # As a client in Python stamps its records.
        producer = Producer(broker.config())
        producer.produce(topic, b"then", timestamp=moment_ms)
        assert producer.flush(TIMEOUT_S) == 0
        produce(broker, topic, [(b"k", b"now")])
        broker.offload(topic)
        broker.apply_retention(topic)
        then, now = broker.records(topic)
    assert (then.value, now.value) == (b"then", b"now")
    assert abs(then.timestamp - moment_ms) < A_DAY_MS


def test_records_are_old_by_the_systems_clock_where_a_topic_says_when(
    broker: Broker, travel: Travel, request: pytest.FixtureRequest
) -> None:
    topic = broker.create_topic(_named(request), retention_ms=A_DAY_MS)
    now_ms = SystemClock().wall_clock_ms()
    producer = Producer(broker.config())
    producer.produce(topic, b"old", timestamp=now_ms - 2 * A_DAY_MS)
    producer.produce(topic, b"new", timestamp=now_ms)
    assert producer.flush(TIMEOUT_S) == 0
    with travel(FUTURE):
        broker.apply_retention(topic)
        # The batch has one that is young.
        assert len(values(broker, topic)) == 2


@pytest.mark.parametrize("properties", [{}, {"log.retention.hours": 1}])
def test_what_a_test_says_of_retention_wins(properties: dict[str, int]) -> None:
    with Broker(properties) as broker:
        broker.create_topic("orders")
        producer = Producer(broker.config())
        producer.produce("orders", b"old", timestamp=SystemClock().wall_clock_ms() - A_DAY_MS)
        assert producer.flush(TIMEOUT_S) == 0
        broker.apply_retention()
        assert values(broker, "orders") == ([] if properties else [b"old"])


def test_a_broker_starts_and_is_killed_in_another_time(travel: Travel) -> None:
    with travel(PAST), Broker(tier="memory") as broker, ThreadPoolExecutor(1) as thread:
        broker.create_topic("orders")
        produce(broker, "orders", [(b"k", b"v")])
        broker.kill()
        broker.restart()
        assert thread.submit(values, broker, "orders").result(TIMEOUT_S) == [b"v"]


def test_the_clocks_of_a_broker_go_on_where_those_of_the_test_stand(travel: Travel) -> None:
    real_s = time.clock_gettime(time.CLOCK_REALTIME)
    with travel(PAST):
        began_s = monotonic_s()
        while monotonic_s() == began_s:
            pass
        assert abs(SystemClock().wall_clock_ms() / 1000 - real_s) < TIMEOUT_S
