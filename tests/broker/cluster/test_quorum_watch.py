"""What a node's log says of the active controller: who it is, or why there is none yet."""

import asyncio
import logging

import pytest

from tierlog.broker.cluster.quorum_watch import QuorumWatch, absence
from tierlog.tests.broker.cluster.scripted_controller import TIMEOUT_S, LeaderInTest

_REFUSED = {
    "n2:9093": "Cannot connect to n2:9093",
    "n3:9093": "n3:9093 belongs to a cluster with another id",
}
_WHY = (
    "No controller is active: this node waits for a majority of the controllers"
    " (Cannot connect to n2:9093; n3:9093 belongs to a cluster with another id)."
)


async def test_a_node_says_what_it_waits_for_and_who_leads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    leader = LeaderInTest()
    leader.refusals = _REFUSED
    watch = QuorumWatch(leader, first_warning_s=0.01)
    watch.start()
    async with asyncio.timeout(TIMEOUT_S):
        while not caplog.messages:  # noqa: ASYNC110 (nothing tells of a log line)
            await asyncio.sleep(0.01)
        leader.names(2, None)
        while len(caplog.messages) < 2:  # noqa: ASYNC110 (nothing tells of a log line)
            await asyncio.sleep(0.01)
    # A later epoch of the same controller is no news.
    leader.names(2, None)
    await asyncio.sleep(0.05)
    await watch.stop()
    assert caplog.messages == [_WHY, "The active controller is node 2."]


def test_a_long_list_of_reasons_is_cut() -> None:
    leader = LeaderInTest()
    assert absence(leader).endswith("a majority of the controllers.")
    leader.refusals = {f"n{number}:9093": f"no {number}" for number in range(7)}
    assert absence(leader).endswith("no 4; and 2 more).")
