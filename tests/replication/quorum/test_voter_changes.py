"""Voters come and go on real sockets and disks, while records are appended (KIP-853)."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.raft.raft_messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    VoterChangeResponse,
)
from tierlog.replication.raft.raft_options import RaftOptions
from tierlog.replication.raft.voter_set import (
    NO_VOTERS,
    Address,
    KRaftVersionRange,
    Voter,
    VoterKey,
    VoterSet,
)

from .quorum_nodes import LISTENER, QuorumNode, voters_at, write_bootstrap

CLUSTER = "a-cluster-that-changes"
PATIENCE_MS = 60_000


def directory_of(node_id: int) -> Uuid:
    return Uuid(b"directory of the"[:15] + bytes([node_id]))


class Cluster:
    """Nodes of one quorum, of which node 1 was formatted as the only voter."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports = {node_id: free_port() for node_id in (1, 2, 3, 4)}
        self.alive: dict[int, QuorumNode] = {}

    def address(self, node_id: int) -> Address:
        return Address("127.0.0.1", self._ports[node_id])

    def move(self, node_id: int) -> None:
        """Give a node another port, for its next start."""
        self._ports[node_id] = free_port()

    def voter(self, node_id: int) -> Voter:
        key = VoterKey(node_id, directory_of(node_id))
        return Voter(key, {LISTENER: self.address(node_id)}, KRaftVersionRange(0, 1))

    async def start(self, node_id: int) -> QuorumNode:
        directory = self._directory / str(node_id)
        if node_id == 1 and not directory.exists():
            write_bootstrap(directory, VoterSet([self.voter(1)]))
        options = RaftOptions(
            node_id,
            directory_of(node_id),
            CLUSTER,
            endpoints={LISTENER: self.address(node_id)},
            bootstrap_servers=tuple(self.address(each) for each in self._ports),
        )
        node = QuorumNode(node_id, directory, NO_VOTERS, CLUSTER, options=options)
        await node.start()
        self.alive[node_id] = node
        return node

    async def add(self, leader: QuorumNode, node_id: int) -> VoterChangeResponse:
        """Add a voter; tried again while it is not caught up, as an operator would."""
        request = AddVoterRequest(
            CLUSTER,
            node_id,
            directory_of(node_id),
            ((LISTENER, self.address(node_id)),),
            PATIENCE_MS,
        )
        while True:
            response = await leader.quorum.handle_voter_change(request)
            if response.error_code is not ErrorCode.REQUEST_TIMED_OUT:
                return response
            await asyncio.sleep(0.05)

    async def remove(self, leader: QuorumNode, node_id: int) -> VoterChangeResponse:
        request = RemoveVoterRequest(CLUSTER, node_id, directory_of(node_id), PATIENCE_MS)
        return await leader.quorum.handle_voter_change(request)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():  # noqa: ASYNC110  # nobody tells of all that a story waits for
                await asyncio.sleep(0.02)

    def leader(self) -> QuorumNode | None:
        return next((node for node in self.alive.values() if node.quorum.is_leader), None)

    async def stop(self) -> None:
        # The leader last: followers stop at once.
        for node in sorted(self.alive.values(), key=lambda each: each.quorum.is_leader):
            await node.stop()


@asynccontextmanager
async def a_cluster(directory: Path, size: int) -> AsyncGenerator[Cluster, None]:
    cluster = Cluster(directory)
    try:
        first = await cluster.start(1)
        await cluster.until(lambda: first.quorum.is_leader)
        for node_id in range(2, size + 1):
            await cluster.start(node_id)
            assert (await cluster.add(first, node_id)).error_code is ErrorCode.NONE
        yield cluster
        for node in cluster.alive.values():
            assert not node.notifications.failures
    finally:
        await cluster.stop()


def ids(node: QuorumNode) -> tuple[int, ...]:
    return node.quorum.voters.ids


def quorum_state(node: QuorumNode) -> dict[str, object]:
    content: dict[str, object] = json.loads(
        (Path(node.log.directory) / "quorum-state").read_bytes()
    )
    return content


async def test_one_voter_grows_to_three_under_appends_and_survives_the_loss_of_the_first(
    tmp_path: Path,
) -> None:
    async with a_cluster(tmp_path, 1) as cluster:
        first = cluster.alive[1]
        assert first.records_on_disk()[0] == (0, first.quorum.epoch)
        is_over = False
        offsets: list[int] = []

        async def append() -> None:
            while not is_over:
                offsets.append(first.append(f"topic-{len(offsets)}"))
                await asyncio.sleep(0.005)

        appending = asyncio.create_task(append())
        for node_id in (2, 3):
            await cluster.start(node_id)
            assert (await cluster.add(first, node_id)).error_code is ErrorCode.NONE
        is_over = True
        await appending
        for node in cluster.alive.values():
            await node.until_committed(offsets[-1])
            assert ids(node) == (1, 2, 3)
        assert len({node.bytes_on_disk() for node in cluster.alive.values()}) == 1
        state = quorum_state(first)
        assert (state["data_version"], "currentVoters" in state) == (1, False)

        del cluster.alive[1]
        await first.kill()
        await cluster.until(lambda: cluster.leader() is not None)
        second = cluster.leader()
        assert second is not None
        await second.until_committed(second.append("after"))
        returned = await cluster.start(1)
        await returned.until_committed(offsets[-1])
        assert ids(returned) == (1, 2, 3)


async def test_a_new_voter_counts_at_once(tmp_path: Path) -> None:
    """With two voters, nothing is committed without the second one."""
    async with a_cluster(tmp_path, 2) as cluster:
        first, second = cluster.alive[1], cluster.alive[2]
        await first.until_committed(first.append("with both"))
        del cluster.alive[2]
        await second.kill()
        lonely = first.append("alone")
        await cluster.until(lambda: not first.quorum.is_leader)
        assert first.notifications.high_watermark <= lonely
        await cluster.start(2)
        await cluster.until(lambda: cluster.leader() is not None)


async def test_a_leader_that_is_removed_resigns_after_the_commit_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    async with a_cluster(tmp_path, 3) as cluster:
        first = cluster.alive[1]
        assert (await cluster.remove(first, 1)).error_code is ErrorCode.NONE
        await cluster.until(
            lambda: (leader := cluster.leader()) is not None and leader is not first
        )
        leader = cluster.leader()
        assert leader is not None
        assert ids(leader) == (2, 3)
        offset = leader.append("without the first")
        # The first one is an observer now: it still follows.
        for node in cluster.alive.values():
            await node.until_committed(offset)
        assert ids(first) == (2, 3)
        assert (await cluster.add(leader, 1)).error_code is ErrorCode.NONE


async def test_what_kafka_refuses_is_refused_with_its_words(tmp_path: Path) -> None:
    async with a_cluster(tmp_path, 2) as cluster:
        first = cluster.alive[1]
        twice = await cluster.add(first, 2)
        assert twice.error_code is ErrorCode.DUPLICATE_VOTER
        assert str(twice.error_message).startswith("The voter id for ReplicaKey(id=2, directoryId=")
        missing = await cluster.remove(first, 4)
        assert missing.error_code is ErrorCode.VOTER_NOT_FOUND
        elsewhere = await cluster.remove(cluster.alive[2], 2)
        assert elsewhere.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert elsewhere.leader_id == 1
        unreachable = AddVoterRequest(
            CLUSTER, 3, directory_of(3), ((LISTENER, cluster.address(3)),), PATIENCE_MS
        )
        refused = await first.quorum.handle_voter_change(unreachable)
        assert refused.error_code is ErrorCode.REQUEST_TIMED_OUT
        assert str(refused.error_message).endswith("BROKER_NOT_AVAILABLE")


async def test_a_voter_that_has_moved_tells_the_leader_its_new_address(tmp_path: Path) -> None:
    async with a_cluster(tmp_path, 3) as cluster:
        second = cluster.alive.pop(2)
        await second.stop()
        cluster.move(2)
        await cluster.start(2)

        def all_have_heard() -> bool:
            voters = [node.quorum.voters for node in cluster.alive.values()]
            return {each.address(2, LISTENER) for each in voters} == {cluster.address(2)}

        await cluster.until(all_have_heard)


async def test_an_observer_of_static_voters_follows_and_survives_the_leaders_death(
    tmp_path: Path,
) -> None:
    voters = voters_at({node_id: free_port() for node_id in (1, 2, 3)})
    nodes = {
        node_id: QuorumNode(node_id, tmp_path / str(node_id), voters, CLUSTER)
        for node_id in (1, 2, 3)
    }
    options = RaftOptions(4, directory_of(4), CLUSTER, can_be_voter=False)
    observer = QuorumNode(4, tmp_path / "4", voters, CLUSTER, options=options)
    for node in (*nodes.values(), observer):
        await node.start()

    async def leader() -> QuorumNode:
        async with asyncio.timeout(60):
            while True:
                for node in nodes.values():
                    if node.quorum.is_leader:
                        return node
                await asyncio.sleep(0.02)

    first = await leader()
    await observer.until_committed(first.append("before"))
    del nodes[first.node_id]
    await first.kill()
    second = await leader()
    await observer.until_committed(second.append("after"))
    assert observer.quorum.leader_id == second.node_id
    described = second.quorum.describe()
    assert [each.replica_id for each in described.observers] == [4]
    for node in (observer, *sorted(nodes.values(), key=lambda each: each.quorum.is_leader)):
        await node.stop()
        assert not node.notifications.failures
