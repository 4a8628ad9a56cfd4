"""Live groups of both protocols: members replaced one after another, and clients of many kinds.

No partition is owned twice and no record is lost while members of both protocols share the group.
librdkafka's cooperative-sticky is left out: Apache Kafka refuses to take its groups over.
"""

from pathlib import Path

import pytest

from ..broker_process import BrokerProcess
from .group_of_processes import Way
from .group_stories import Scene, clients_share_a_group, members_are_rolled, run_of


@pytest.mark.parametrize(
    ("client", "strategy", "assignor"),
    [
        run_of("confluent", "range", "range"),
        run_of("confluent", "roundrobin", "uniform"),
        run_of("java", "CooperativeStickyAssignor", "uniform"),
    ],
)
def test_a_live_group_goes_to_the_other_protocol_and_back(
    shared_broker: BrokerProcess, tmp_path: Path, client: str, strategy: str, assignor: str
) -> None:
    scene = Scene(shared_broker.bootstrap, f"{client}-{strategy}", client, strategy, tmp_path)
    members_are_rolled(scene, Way("consumer", assignor), Way("classic", strategy))


@pytest.mark.requires("java", "mvn", "go")
@pytest.mark.parametrize(
    ("way", "others"),
    [
        pytest.param(
            Way("consumer", "uniform", "confluent"),
            [Way("consumer", "uniform", "java"), Way("consumer", "uniform", "franz-go")],
            id="consumer",
        ),
        pytest.param(
            Way("classic", "range", "confluent"),
            [Way("classic", "range", "kafka-python"), Way("classic", "range", "aiokafka")],
            id="classic",
        ),
        pytest.param(
            Way("consumer", "range", "confluent"),
            [Way("classic", "range", "kafka-python"), Way("classic", "range", "aiokafka")],
            id="both",
        ),
    ],
)
def test_clients_of_different_kinds_share_a_group(
    shared_broker: BrokerProcess, tmp_path: Path, way: Way, others: list[Way]
) -> None:
    topic = "-".join([way.protocol, *(other.protocol for other in others)])
    scene = Scene(shared_broker.bootstrap, topic, way.client, way.strategy, tmp_path, way.protocol)
    clients_share_a_group(scene, others)
