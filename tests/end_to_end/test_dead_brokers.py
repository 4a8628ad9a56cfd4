"""A broker dies or restarts, and the others' controllers know it before its session expires.

Both settings are tierlog's own. The session is so long that nothing here happens by its end.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.cluster import Cluster, ClusterNode, combined

from ..waiting import wait_until
from .replicated_topics import create, leader_of, produce

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]

_SESSION_S = 600
_WITHIN_S = 180
_SETTINGS = {
    "broker.session.timeout.ms": str(_SESSION_S * 1_000),
    "broker.heartbeat.interval.ms": "1000",
    "tierlog.broker.death.hint": "true",
    "tierlog.broker.clean.restart": "true",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, combined("tierlog", "tierlog", "tierlog"), _SETTINGS) as three:
        three.wait_until_caught_up()
        yield three


def standby(cluster: Cluster) -> ClusterNode:
    """A broker that is not the active controller."""
    lead = cluster.wait_for_leader()
    return next(node for node in cluster.brokers if node.node_id != lead.node_id)


def test_a_killed_broker_leads_nothing_long_before_its_session_ends(cluster: Cluster) -> None:
    dead = standby(cluster)
    following = [node_id for node_id in cluster.nodes if node_id != dead.node_id]
    create(cluster, "led-by-the-dead", [dead.node_id, *following])
    others = ",".join(node.bootstrap for node in cluster.brokers if node is not dead)

    def leader() -> int:
        return leader_of(cluster, others, "led-by-the-dead")

    wait_until(lambda: leader() == dead.node_id, _WITHIN_S, lambda: f"{leader()} leads")
    dead.kill()
    wait_until(lambda: leader() not in (-1, dead.node_id), _WITHIN_S, cluster.log_tails)
    produce(others, "led-by-the-dead", [b"after"])
    # Its old registration has no session any more, so that it registers as soon as it is back.
    dead.start()
    cluster.wait_until_caught_up(_WITHIN_S)


def test_a_broker_that_stopped_cleanly_is_back_at_once(cluster: Cluster) -> None:
    again = standby(cluster)
    again.stop(_WITHIN_S)
    began = time.monotonic()
    again.start()
    cluster.wait_until_caught_up(_WITHIN_S)
    assert time.monotonic() - began < _SESSION_S
