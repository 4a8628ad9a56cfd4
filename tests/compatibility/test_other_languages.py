"""Clients in JavaScript and Go: they produce, and three of them share a group."""

import subprocess
from pathlib import Path

import pytest

from ..broker_process import BrokerProcess
from .foreign_members import foreign_command
from .test_groups_of_three import PARTITIONS, TOPIC, create_topic, group_on

CLIENTS = pytest.mark.parametrize(
    ("client", "strategy"),
    [
        pytest.param("kafkajs", "roundrobin", marks=pytest.mark.requires("node")),
        pytest.param("franz-go", "cooperative-sticky", marks=pytest.mark.requires("go")),
        pytest.param("franz-go", "range", marks=pytest.mark.requires("go")),
    ],
)


def produce(bootstrap: str, client: str, per_partition: int) -> None:
    options = {
        "bootstrap": bootstrap,
        "topic": TOPIC,
        "produce": per_partition,
        "partitions": PARTITIONS,
    }
    command = foreign_command(client, options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@CLIENTS
def test_three_members_share_what_their_own_producer_wrote(
    tmp_path: Path, client: str, strategy: str
) -> None:
    with BrokerProcess.on(tmp_path) as broker:
        create_topic(broker.bootstrap)
        produce(broker.bootstrap, client, 50)
        with group_on(broker, client, strategy, tmp_path) as group:
            group.start("anna")
            group.wait_for_shares(6)
            group.wait_until_read(300)
            lena = group.start("lena")
            group.wait_for_shares(3, 3)
            mona = group.start("mona")
            group.wait_for_shares(2, 2, 2)
            produce(broker.bootstrap, client, 50)
            group.wait_until_read(600)
            lena.leave()
            group.wait_for_shares(3, 3)
            mona.kill()
            group.wait_for_shares(6)
            produce(broker.bootstrap, client, 50)
            group.wait_until_read(900)
            group.check_ownership()
            assert group.read == {(part, offset) for part in range(6) for offset in range(150)}


@CLIENTS
def test_who_comes_later_goes_on_where_the_group_has_committed(
    tmp_path: Path, client: str, strategy: str
) -> None:
    with BrokerProcess.on(tmp_path) as broker:
        create_topic(broker.bootstrap)
        produce(broker.bootstrap, client, 20)
        with group_on(broker, client, strategy, tmp_path) as group:
            anna = group.start("anna")
            group.wait_until_read(120)
            anna.leave()
            produce(broker.bootstrap, client, 10)
            lena = group.start("lena")
            group.wait_until_read(180)
            lena.leave()
            assert lena.read == {(part, offset) for part in range(6) for offset in range(20, 30)}
