"""DescribeQuorum of one of several nodes, on real sockets and disks."""

import asyncio
import time
from pathlib import Path

from tierlog.bench.harness.requests.probe import free_port
from tierlog.broker.handlers.describe_quorum import describe_quorum
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.codec import encode_bytes
from tierlog.clients.protocol.messages.describe_quorum import DescribeQuorumResponse

from ...replication.quorum.quorum_nodes import LISTENER, QuorumNode, voters_at


async def until_all_have_caught_up(leader: QuorumNode) -> tuple[DescribeQuorumResponse, int]:
    """A voter has caught up once it fetches from the end: after the one that commits, perhaps."""
    async with asyncio.timeout(60):
        while True:
            now_ms = int(time.time() * 1000)
            response = describe_quorum(leader.quorum, now_ms, 2)
            voters = response.topics[0].partitions[0].current_voters
            if all(voter.last_caught_up_timestamp > 0 for voter in voters):
                return response, now_ms
            await asyncio.sleep(0.02)


async def test_the_leader_knows_the_voters_and_others_do_not_answer(tmp_path: Path) -> None:
    ports = {node_id: free_port() for node_id in (1, 2, 3)}
    nodes = [
        QuorumNode(node_id, tmp_path / str(node_id), voters_at(ports), "c") for node_id in ports
    ]
    for node in nodes:
        await node.start()
    async with asyncio.timeout(60):
        while not any(node.quorum.is_leader for node in nodes):  # noqa: ASYNC110  # elections
            await asyncio.sleep(0.02)
    leader, *_ = (node for node in nodes if node.quorum.is_leader)
    follower, *_ = (node for node in nodes if node is not leader)
    offset = leader.append("a topic")
    for node in nodes:
        await node.until_committed(offset)

    response, now_ms = await until_all_have_caught_up(leader)
    partition = response.topics[0].partitions[0]
    assert partition.leader_id == leader.node_id
    assert partition.high_watermark == offset + 1
    assert [each.replica_id for each in partition.current_voters] == [1, 2, 3]
    for voter in partition.current_voters:
        assert now_ms - 60_000 < voter.last_caught_up_timestamp <= now_ms
    assert [
        (node.node_id, [(each.name, each.port) for each in node.listeners])
        for node in response.nodes
    ] == [(node_id, [(LISTENER, port)]) for node_id, port in ports.items()]

    for version in (0, 1, 2):
        encode_bytes(describe_quorum(leader.quorum, now_ms, version), version)
        refused = describe_quorum(follower.quorum, now_ms, version)
        error = refused.topics[0].partitions[0].error_code
        assert error == ErrorCode.NOT_LEADER_OR_FOLLOWER
        encode_bytes(refused, version)
    for node in sorted(nodes, key=lambda each: each.quorum.is_leader):
        await node.stop()
