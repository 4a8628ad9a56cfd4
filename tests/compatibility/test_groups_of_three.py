"""Unmodified clients in a group of three: arrival, departure, death, commit, resume."""

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ..broker_process import BrokerProcess
from .group_of_processes import GroupOfProcesses

PARTITIONS = 6
TOPIC = "topic"

CLIENTS = [
    ("confluent", "range"),
    ("confluent", "roundrobin"),
    ("confluent", "cooperative-sticky"),
    ("kafka-python", "default"),
    ("aiokafka", "range"),
    ("aiokafka", "sticky"),
    ("java", "RangeAssignor"),
    ("java", "StickyAssignor"),
    ("java", "CooperativeStickyAssignor"),
]
RUNS = pytest.mark.parametrize(
    ("client", "strategy"),
    [
        pytest.param(*each, marks=pytest.mark.requires("java", "mvn"))
        if each[0] == "java"
        else each
        for each in CLIENTS
    ],
)


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    for created in admin.create_topics([topic]).values():  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # published without types
        created.result(30)


def produce(bootstrap: str, per_partition: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(per_partition):
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, f"{number}", partition=partition)
    assert producer.flush(60) == 0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess.on(tmp_path) as process:
        create_topic(process.bootstrap)
        yield process


def group_on(broker: BrokerProcess, client: str, strategy: str, path: Path) -> GroupOfProcesses:
    return GroupOfProcesses(
        {
            "client": client,
            "bootstrap": broker.bootstrap,
            "topic": TOPIC,
            "group": "group",
            "strategy": strategy,
            "instance": None,
        },
        path,
    )


@RUNS
def test_members_come_and_go_and_every_record_is_read(
    broker: BrokerProcess, tmp_path: Path, client: str, strategy: str
) -> None:
    produce(broker.bootstrap, 50)
    with group_on(broker, client, strategy, tmp_path) as group:
        group.start("anna")
        group.wait_for_shares(6)
        group.wait_until_read(300)
        lena = group.start("lena")
        group.wait_for_shares(3, 3)
        mona = group.start("mona")
        group.wait_for_shares(2, 2, 2)
        produce(broker.bootstrap, 50)
        group.wait_until_read(600)
        lena.leave()
        group.wait_for_shares(3, 3)
        mona.kill()
        # Its session has to run out before the others hear of it.
        group.wait_for_shares(6)
        produce(broker.bootstrap, 50)
        group.wait_until_read(900)
        group.check_ownership()
        assert group.read == {(part, offset) for part in range(6) for offset in range(150)}


@RUNS
def test_who_comes_later_goes_on_where_the_group_has_committed(
    broker: BrokerProcess, tmp_path: Path, client: str, strategy: str
) -> None:
    produce(broker.bootstrap, 20)
    with group_on(broker, client, strategy, tmp_path) as group:
        anna = group.start("anna")
        group.wait_until_read(120)
        anna.leave()
        produce(broker.bootstrap, 10)
        lena = group.start("lena")
        group.wait_until_read(180)
        lena.leave()
        assert lena.read == {(part, offset) for part in range(6) for offset in range(20, 30)}


@RUNS
def test_a_static_member_that_restarts_gets_its_partitions_back_and_disturbs_nobody(
    broker: BrokerProcess, tmp_path: Path, client: str, strategy: str
) -> None:
    with group_on(broker, client, strategy, tmp_path) as group:
        sam = group.start("sam", instance="sam")
        group.wait_for_shares(6)
        tom = group.start("tom", instance="tom")
        group.wait_for_shares(3, 3)
        owned, before = sam.owned, len(tom.events)
        sam.kill()
        again = group.start("sam again", instance="sam")
        group.wait_for_shares(3, 3)
        assert again.owned == owned
        assert [event.event for event in tom.events[before:]] == []
        group.check_ownership()
