"""Three nodes of a quorum on real sockets and disks elect, replicate and lose one another."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tierlog.bench.harness.requests.probe import free_port

from .quorum_nodes import QuorumNode, voters_at

CLUSTER = "a-cluster-of-three"


class Trio:
    """Three voters."""

    def __init__(self, directory: Path) -> None:
        ports = {node_id: free_port() for node_id in (1, 2, 3)}
        self._directory = directory
        self._voters = voters_at(ports)
        self.alive: dict[int, QuorumNode] = {}

    async def start(self, node_id: int) -> QuorumNode:
        node = QuorumNode(node_id, self._directory / str(node_id), self._voters, CLUSTER)
        await node.start()
        self.alive[node_id] = node
        return node

    async def leader(self, not_in_epoch: int = -1) -> QuorumNode:
        """Wait for a leader that another node follows too."""
        async with asyncio.timeout(60):
            while True:
                leading = [node for node in self.alive.values() if node.quorum.is_leader]
                for node in leading:
                    epoch = node.quorum.epoch
                    followers = [
                        each
                        for each in self.alive.values()
                        if each.quorum.leader_id == node.node_id and each.quorum.epoch == epoch
                    ]
                    if epoch != not_in_epoch and len(followers) >= 2:
                        return node
                await asyncio.sleep(0.02)

    async def kill(self, node: QuorumNode) -> None:
        del self.alive[node.node_id]
        await node.kill()


@asynccontextmanager
async def a_trio(directory: Path) -> AsyncGenerator[Trio, None]:
    trio = Trio(directory)
    try:
        for node_id in (1, 2, 3):
            await trio.start(node_id)
        yield trio
    finally:
        # The leader first: it waits for the answers of the others.
        for node in sorted(trio.alive.values(), key=lambda each: not each.quorum.is_leader):
            await node.stop()
    for node in trio.alive.values():
        assert not node.notifications.failures


async def replicated(trio: Trio, offset: int) -> None:
    """Wait until every node that lives knows the offset as committed; their bytes are equal."""
    for node in trio.alive.values():
        await node.until_committed(offset)
    logs = {node.bytes_on_disk() for node in trio.alive.values()}
    assert len(logs) == 1, {node.node_id: node.records_on_disk() for node in trio.alive.values()}


async def test_three_voters_elect_a_leader_and_hold_the_same_bytes(tmp_path: Path) -> None:
    async with a_trio(tmp_path) as trio:
        leader = await trio.leader()
        offsets = [leader.append(f"topic-{number}") for number in range(20)]
        await replicated(trio, offsets[-1])
        assert leader.records_on_disk()[0] == (0, leader.quorum.epoch), "a LeaderChange is first"


async def test_a_killed_leader_is_replaced_and_catches_up_when_it_returns(tmp_path: Path) -> None:
    async with a_trio(tmp_path) as trio:
        first = await trio.leader()
        acknowledged = first.append("before")
        await replicated(trio, acknowledged)
        epoch = first.quorum.epoch
        await trio.kill(first)

        second = await trio.leader(not_in_epoch=epoch)
        assert second.quorum.epoch > epoch
        after = second.append("after")
        await second.until_committed(after)

        await trio.start(first.node_id)
        await replicated(trio, after)


async def test_a_leader_that_stops_hands_over_without_waiting_for_a_timeout(tmp_path: Path) -> None:
    async with a_trio(tmp_path) as trio:
        first = await trio.leader()
        await replicated(trio, first.append("before"))
        epoch = first.quorum.epoch
        del trio.alive[first.node_id]
        await first.stop()
        second = await trio.leader(not_in_epoch=epoch)
        await second.until_committed(second.append("after"))


async def test_records_of_a_leader_without_a_majority_are_truncated(tmp_path: Path) -> None:
    async with a_trio(tmp_path) as trio:
        first = await trio.leader()
        committed = first.append("committed")
        await replicated(trio, committed)
        epoch = first.quorum.epoch
        others = [node for node in trio.alive.values() if node is not first]
        for node in others:
            await trio.kill(node)
        lost = first.append("lost")
        await asyncio.sleep(0)
        await trio.kill(first)
        assert first.notifications.high_watermark <= lost

        for node in others:
            await trio.start(node.node_id)
        second = await trio.leader(not_in_epoch=epoch)
        kept = second.append("kept")
        await second.until_committed(kept)
        await trio.start(first.node_id)
        await replicated(trio, kept)
        assert b"lost" not in trio.alive[first.node_id].bytes_on_disk()
        for node in trio.alive.values():
            assert b"committed" in node.bytes_on_disk()
            assert b"kept" in node.bytes_on_disk()
