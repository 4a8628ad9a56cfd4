"""Faults on real brokers: what each does to a node, what the node says, and what is left of it."""

import errno
import random
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from tierlog.bench.harness.faults.clock import CLOCK_FAULTS
from tierlog.bench.harness.faults.damage import DAMAGE_FAULTS
from tierlog.bench.harness.faults.disk import DISK_FAULTS
from tierlog.bench.harness.faults.disk_control import CREATE, SYNC, WRITE, DiskControl
from tierlog.bench.harness.faults.fault import Fault
from tierlog.bench.harness.faults.images import IMAGE_FAULTS
from tierlog.bench.harness.faults.store import STORE_FAULTS, TroubledStore
from tierlog.bench.harness.processes.cluster import Cluster, Seat
from tierlog.bench.harness.requests.wire import Wire, WireError, create_topic
from tierlog.tests.scenarios.plain_io import produce, read, value_of
from tierlog.tests.waiting import wait_until

from .stage import TOPIC, three_brokers

FAULTS: Mapping[str, Fault] = {
    each.name: each for each in (*DISK_FAULTS, *CLOCK_FAULTS, *DAMAGE_FAULTS, *IMAGE_FAULTS)
}
SENTENCES = {
    "disk_full": "No space left on device: free space on its disk, then restart the broker",
    "disk_sync_error": "Input/output error: check its disk, and replace it if it is broken, then",
    "clock_hours_ahead": "",
    "clock_behind": "",
    "damage_segments": "because the CRC of the record batch there is wrong",
    "damage_checkpoints": "",
    "stale_image": "",
    "disk_replaced": "",
    "directories_swapped": "use another directory in log.dirs.",
}
"""What a node that was hit says of it, if anything."""


@pytest.mark.long
@pytest.mark.requires("cc")
@pytest.mark.timeout(900)
def test_three_brokers_lose_nothing_by_any_fault_of_one(tmp_path: Path) -> None:
    names = list(SENTENCES)
    random.Random(27).shuffle(names)
    with three_brokers(tmp_path, list(FAULTS.values())) as stage:
        for name in names:
            nodes = stage.hit(FAULTS[name])
            said = stage.output(nodes)
            assert SENTENCES[name] in said
            assert "Traceback" not in said
        lead = stage.cluster.wait_for_leader().node_id
        FAULTS["disk_write_error"].act(stage.grounds, (lead,), 2)
        stage.watch.wait_for_all(180)
        assert "stopping without it" not in stage.output([lead]), "waits for nobody"
        assert stage.check() > 1000
        stage.check_replicas()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_store_in_trouble_costs_no_record_and_no_broker(tmp_path: Path) -> None:
    with (
        TroubledStore(tmp_path) as store,
        three_brokers(tmp_path, STORE_FAULTS, store=store) as stage,
    ):
        wait_until(lambda: store.proxy.counts.write > 0, 120, "nothing is copied")
        for fault in STORE_FAULTS:
            nodes = stage.hit(fault, lasts_s=3)
            assert "Traceback" not in stage.output(nodes)
        before = store.proxy.counts.write
        wait_until(lambda: store.proxy.counts.write > before, 120, "nothing is copied any more")
        assert store.proxy.refused > 0
        assert store.proxy.lost_answers > 0
        assert stage.check() > 1000


@pytest.fixture
def alone(tmp_path: Path) -> Cluster:
    """A broker that is its whole cluster, on a disk that can fail."""
    cluster = Cluster(tmp_path, {1: Seat("tierlog", "broker,controller")})
    (node,) = cluster.nodes.values()
    FAULTS["disk_full"].prepare(node)
    return cluster


@pytest.mark.slow
@pytest.mark.requires("cc")
@pytest.mark.parametrize(
    ("calls", "error", "reason"),
    [
        (WRITE | CREATE, errno.ENOSPC, "No space left on device: free space on its disk"),
        (SYNC, errno.EIO, "Input/output error: check its disk, and replace it if it is broken"),
    ],
)
def test_a_broker_on_a_disk_that_fails_ends_and_has_all_that_it_acknowledged(
    alone: Cluster, calls: int, error: int, reason: str
) -> None:
    with alone:
        (node,) = alone.nodes.values()
        with Wire(node.bootstrap) as wire:
            create_topic(wire, TOPIC, 1, {})
        before = produce(node.bootstrap, TOPIC, map(value_of, range(50)))
        disk = DiskControl.of(node)
        disk.fail(calls, error)
        with Wire(node.bootstrap) as wire, suppress(WireError):
            create_topic(wire, "no-room", 1, {})
        wait_until(lambda: not node.is_alive(), 60, "the broker goes on")
        assert disk.hits > 0
        disk.mend()
        assert f"is offline: {reason}, then restart the broker" in node.output
        assert "Traceback" not in node.output
        node.start()
        found = dict(read(node.bootstrap, TOPIC, len(before.acknowledged)))
        assert all(found.get(offset) == value for offset, value in before.acknowledged)
