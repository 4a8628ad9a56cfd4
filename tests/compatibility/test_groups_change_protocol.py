"""Live groups whose members are replaced one after another: from classic to `consumer` and back.

No partition is owned twice and no record is lost while members of both protocols share the group.
librdkafka's cooperative-sticky is left out: Apache Kafka refuses to take its groups over.
"""

from pathlib import Path

import pytest

from ..broker_process import BrokerProcess
from .group_stories import Scene, members_are_rolled, run_of


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
    members_are_rolled(scene, ("consumer", assignor), ("classic", strategy))
