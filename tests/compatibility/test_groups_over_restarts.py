"""A group outlives its coordinator: members and positions come back from `__consumer_offsets`."""

from pathlib import Path

import pytest

from tierlog.bench.harness.requests.probe import free_port

from ..broker_process import BrokerProcess
from .conftest import PATIENCE_MS, PATIENT_PROPERTIES
from .group_stories import Scene, goes_on, run_of


@pytest.mark.parametrize(
    ("client", "protocol", "strategy", "dies"),
    [
        run_of("confluent", "classic", "range", True),
        run_of("confluent", "classic", "cooperative-sticky", False),
        run_of("kafka-python", "classic", "range", True),
        run_of("kafka-python", "classic", "range", False),
        run_of("aiokafka", "classic", "range", True),
        run_of("java", "classic", "CooperativeStickyAssignor", True),
        run_of("kafkajs", "classic", "roundrobin", True),
        run_of("franz-go", "classic", "cooperative-sticky", True),
        run_of("confluent", "consumer", "uniform", True),
        run_of("confluent", "consumer", "range", False),
        run_of("java", "consumer", "uniform", True),
        run_of("franz-go", "consumer", "uniform", True),
    ],
)
def test_members_carry_on_with_a_restarted_coordinator(
    tmp_path: Path, client: str, protocol: str, strategy: str, dies: bool
) -> None:
    settings = {**PATIENT_PROPERTIES, "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}"}
    with BrokerProcess.on(tmp_path, settings) as broker:
        scene = Scene(broker.bootstrap, "topic", client, strategy, tmp_path, protocol, PATIENCE_MS)
        scene.create()
        scene.produce(20)
        with scene.group() as group:
            group.start("anna")
            group.start("lena")
            group.wait_for_shares(3, 3)
            group.wait_until_read(120)
            moves = group.moves
            if dies:
                broker.kill()
            else:
                broker.stop()
            with BrokerProcess.on(tmp_path, settings):
                scene.produce(20)
                group.wait_until_read(240)
                if client in {"franz-go", "kafkajs"}:
                    # They join again by themselves when they cannot connect for a while.
                    group.wait_for_shares(3, 3)
                else:
                    # The generation was in the log: nobody had to join again.
                    assert group.moves == moves, group.describe()
                group.check_ownership()
                for member in group.members:
                    member.leave()
                goes_on(scene, 40)
