"""What a simulated cluster's truth is when those who have it are gone: `cluster_truth.py`."""

import asyncio
from collections.abc import Callable

from tierlog.tests.simulation.cluster_clients import Promises
from tierlog.tests.simulation.cluster_member import CONTROLLER_PORT, IDS, Member
from tierlog.tests.simulation.cluster_network import ClusterLoop, ClusterNetwork
from tierlog.tests.simulation.cluster_truth import ClusterTruth
from tierlog.tests.simulation.disk import Survival
from tierlog.tests.simulation.loop import SimulatedLoop, running

VIRTUAL_S = 30


def until(loop: SimulatedLoop, condition: Callable[[], bool]) -> None:
    end_s = loop.time() + VIRTUAL_S
    while not condition():
        assert loop.time() < end_s
        loop.run_until_complete(asyncio.sleep(0.1))


def offset(member: Member) -> int:
    assert member.controller is not None
    return member.controller.image.offset


def test_what_is_committed_stays_true_when_only_one_is_left_who_has_not_heard_of_it() -> None:
    with running(ClusterLoop(1)) as loop:
        network = ClusterNetwork(loop)
        members = [Member(loop, network, each, {}) for each in IDS]
        truth = ClusterTruth(members, Promises())
        for member in members:
            member.begin()
        until(loop, lambda: all(each.is_serving for each in members))
        first, behind, last = members
        for other in (first, last):
            network.cut_links([(other.host, behind.host, CONTROLLER_PORT)])
            network.cut_links([(behind.host, other.host, CONTROLLER_PORT)])
        until(loop, lambda: offset(first) > offset(behind))
        committed = truth.image
        assert committed is not None
        first.end(Survival.EVERYTHING)
        last.end(Survival.EVERYTHING)
        assert truth.image is committed
        behind.end(Survival.EVERYTHING)
        assert truth.image is committed
