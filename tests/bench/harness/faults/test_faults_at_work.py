"""Faults are done to processes, one after the other or together, and at the end every one runs."""

import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tierlog.bench.harness.faults.fault import Fault, to_one
from tierlog.bench.harness.faults.fault_runner import NOT_READY, Chaos, Planned
from tierlog.bench.harness.faults.links import Links
from tierlog.bench.harness.faults.signals import KILL, PAUSE
from tierlog.bench.harness.processes.cluster import Cluster, ClusterNode, combined
from tierlog.tests.waiting import wait_until

pytestmark = [pytest.mark.slow]
WITHIN_S = 30.0


class _Sleeper(ClusterNode):
    """A process that does nothing, in the place of a broker."""

    def prepare(self, configuration: Path) -> None: ...

    def command(self, configuration: Path) -> list[str]:
        return ["sleep", "600"]


class _Listed:
    """A schedule that has these faults due at once, as often as they are put off."""

    def __init__(self, faults: Sequence[Fault], count: int) -> None:
        self._due = [Planned(fault, 0.0) for fault in faults]
        self._left = count
        self.all_ended = threading.Event()
        self.reasons: set[str] = set()

    def due(self, at: float, under_way: int) -> Planned | None:
        return self._due.pop(0) if self._due else None

    def put_off(self, planned: Planned, at: float, why: str) -> None:
        self.reasons.add(why)
        if why == "it failed":
            self.ended(planned, at)
        else:
            self._due.append(planned)

    def ended(self, planned: Planned, at: float) -> None:
        self._left -= 1
        if self._left == 0:
            self.all_ended.set()


def does(name: str, what: Callable[[ClusterNode], None], *, is_alone: bool = False) -> Fault:
    """A fault that calls something."""
    act = to_one(lambda grounds, node, lasts_s: what(node))
    return Fault(name, "", act, is_alone=is_alone)


@contextmanager
def under(
    directory: Path, *faults: Fault, may_begin: Callable[[], bool] = lambda: True
) -> Generator[tuple[Cluster, Chaos, _Listed]]:
    """Two processes under these faults."""
    cluster = Cluster(directory, combined("tierlog", "tierlog"))
    for node_id, seat in combined("tierlog", "tierlog").items():
        cluster.nodes[node_id] = _Sleeper(node_id, seat, directory / str(node_id), "x", {})
    schedule = _Listed(faults, len(faults))
    with Links(dict) as links:
        chaos = Chaos(cluster, links, schedule, "seed", may_begin=may_begin)
        try:
            for node in cluster.nodes.values():
                node.spawn()
            with chaos:
                yield cluster, chaos, schedule
        finally:
            cluster.kill()


def test_every_process_runs_again_when_all_faults_are_over(tmp_path: Path) -> None:
    faults: list[Fault] = [KILL, PAUSE, KILL, KILL]
    with under(tmp_path, *faults) as (cluster, chaos, schedule):
        assert schedule.all_ended.wait(WITHIN_S)
        chaos.stop()
        assert all(node.is_alive() for node in cluster.nodes.values())
    assert sorted(fired.name for fired in chaos.faults) == ["kill", "kill", "kill", "pause"]
    assert chaos.errors == chaos.ended_by_themselves == []


def test_a_fault_that_fails_is_reported_and_its_node_runs_again(tmp_path: Path) -> None:
    def fail(node: ClusterNode) -> None:
        node.kill()
        raise ValueError("no way")

    with under(tmp_path, does("broken", fail)) as (cluster, chaos, schedule):
        assert schedule.all_ended.wait(WITHIN_S)
        chaos.stop()
        assert all(node.is_alive() for node in cluster.nodes.values())
    assert chaos.errors == ["broken: ValueError: no way"]
    assert schedule.reasons == {"it failed"}


def test_what_is_alone_waits_until_nothing_else_is_under_way(tmp_path: Path) -> None:
    goes_on, seen = threading.Event(), list[bool]()

    def wait(node: ClusterNode) -> None:
        assert goes_on.wait(WITHIN_S)

    def look(node: ClusterNode) -> None:
        seen.append(goes_on.is_set())

    faults = [does("long", wait), does("alone", look, is_alone=True)]
    with under(tmp_path, *faults) as (_, chaos, schedule):
        wait_until(
            lambda: "not all replicas were in sync" in schedule.reasons, WITHIN_S, "it did not wait"
        )
        goes_on.set()
        assert schedule.all_ended.wait(WITHIN_S)
    assert seen == [True]
    assert [fired.name for fired in chaos.faults] == ["long", "alone"]


def test_no_fault_begins_before_the_cluster_is_ready(tmp_path: Path) -> None:
    is_ready = threading.Event()
    with under(tmp_path, KILL, may_begin=is_ready.is_set) as (_, chaos, schedule):
        wait_until(lambda: NOT_READY in schedule.reasons, WITHIN_S, "nothing was put off")
        assert chaos.faults == []
        is_ready.set()
        assert schedule.all_ended.wait(WITHIN_S)


def test_a_process_that_ends_by_itself_is_noted_and_started_again(tmp_path: Path) -> None:
    with under(tmp_path) as (cluster, chaos, _):
        process = cluster.nodes[1]
        ended = process.pid
        os.kill(ended, signal.SIGKILL)
        wait_until(
            lambda: bool(chaos.ended_by_themselves) and process.pid != ended,
            WITHIN_S,
            "the process was not started again",
        )
    assert chaos.ended_by_themselves[0].startswith("node 1 ended by itself")
