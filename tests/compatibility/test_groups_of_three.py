"""Unmodified clients in a group of three, which they share out among themselves.

Arrival, seek, pause, departure, death, commit, resume; eager and cooperative assignors.
"""

from pathlib import Path

import pytest

from ..broker_process import BrokerProcess
from .conftest import PATIENCE_MS
from .group_stories import Scene, a_static_member_comes_back, run_of, three_members_come_and_go
from .topics import PARTITIONS, TOPIC, create_topic, produce

__all__ = ["PARTITIONS", "TOPIC", "create_topic", "produce"]

EVERY_CLIENT = [
    run_of("confluent", "range"),
    run_of("confluent", "cooperative-sticky"),
    run_of("kafka-python", "range"),
    run_of("kafka-python", "cooperative-sticky"),
    run_of("aiokafka", "range"),
    run_of("aiokafka", "sticky"),
    run_of("java", "RangeAssignor"),
    run_of("java", "StickyAssignor"),
    run_of("java", "CooperativeStickyAssignor"),
    run_of("kafkajs", "roundrobin"),
    run_of("franz-go", "range"),
    run_of("franz-go", "cooperative-sticky"),
]


@pytest.mark.parametrize(("client", "strategy"), EVERY_CLIENT)
def test_three_members_come_seek_pause_and_go(
    shared_broker: BrokerProcess, tmp_path: Path, client: str, strategy: str
) -> None:
    topic = f"{client}-{strategy}"
    scene = Scene(shared_broker.bootstrap, topic, client, strategy, tmp_path)
    three_members_come_and_go(scene)


@pytest.mark.parametrize(
    ("client", "strategy"),
    [
        run_of("confluent", "range"),
        run_of("confluent", "cooperative-sticky"),
        run_of("kafka-python", "range"),
        run_of("aiokafka", "sticky"),
        run_of("java", "RangeAssignor"),
        run_of("java", "CooperativeStickyAssignor"),
        run_of("franz-go", "cooperative-sticky"),
    ],
)
def test_a_static_member_that_restarts_gets_its_partitions_back_and_disturbs_nobody(
    patient_broker: BrokerProcess, tmp_path: Path, client: str, strategy: str
) -> None:
    topic = f"static-{client}-{strategy}"
    scene = Scene(
        patient_broker.bootstrap, topic, client, strategy, tmp_path, session_ms=PATIENCE_MS
    )
    a_static_member_comes_back(scene, dies=True)
