"""Three processes lose their active controller under a stream of changes, and lose no change."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tierlog.bench.harness.cluster_runs.cluster_failover import kill_controllers
from tierlog.bench.harness.loads.cluster_changes import Outcome, wrong_changes
from tierlog.bench.harness.processes.cluster import Cluster, Kind, combined, separate
from tierlog.bench.harness.processes.cluster_log import committed, metadata_records

pytestmark = pytest.mark.slow

# The logs are compared from their first record on, and must not grow meanwhile.
QUIET: Mapping[str, str] = {"metadata.max.idle.interval.ms": "0"}


def test_no_acknowledged_change_is_lost_with_the_active_controller(tmp_path: Path) -> None:
    seats = combined("tierlog", "tierlog", "tierlog")
    with Cluster(tmp_path, seats, QUIET) as cluster:
        failovers = kill_controllers(cluster, 3)
    assert len(failovers.unavailable_s()) == 3
    assert failovers.count(Outcome.ACKNOWLEDGED) > 20
    assert failovers.count(Outcome.REFUSED) > 5


def test_brokers_apart_are_served_by_the_next_controller(tmp_path: Path) -> None:
    kinds: list[Kind] = ["tierlog"] * 3
    with Cluster(tmp_path, separate(kinds, kinds[:2]), QUIET) as cluster:
        failovers = kill_controllers(cluster, 2)
    # No broker dies, so that every change waits for the next controller and is answered.
    assert failovers.count(Outcome.ACKNOWLEDGED) > 20


def test_a_cluster_survives_the_end_of_all_its_processes(tmp_path: Path) -> None:
    with Cluster(tmp_path, combined("tierlog", "tierlog", "tierlog"), QUIET) as cluster:
        before = kill_controllers(cluster, 1)
        cluster.kill()
        cluster.start()
        after = kill_controllers(cluster, 1, name="after")
        records = metadata_records(committed(cluster))
    assert wrong_changes([*before.history, *after.history], records) == []
