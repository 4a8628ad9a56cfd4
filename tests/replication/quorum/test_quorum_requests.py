"""A node of the quorum answers every version of the requests that other nodes send it."""

import asyncio
from pathlib import Path

import pytest

from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.api import APIS, ApiKey, request_class, response_class
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.messages.begin_quorum_epoch_request import (
    BeginQuorumEpochRequest,
    PartitionData,
    TopicData,
)
from tierlog.clients.protocol.messages.fetch import FetchRequest
from tierlog.replication.quorum.quorum_requests import answer

from .quorum_nodes import QuorumNode, voters_at

QUORUM_APIS = (
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.FETCH,
    ApiKey.FETCH_SNAPSHOT,
)


async def error_of(node: QuorumNode, key: ApiKey, version: int) -> int:
    """The error of the whole response to an empty request, as it comes out of the wire."""
    response = await answer(node.quorum, request_class(key)(), version)
    content = encode_bytes(response, version)
    back, _ = decode(response_class(key), version, memoryview(content))
    code = getattr(back, "error_code", None)
    assert isinstance(code, int)
    return code


def a_node(directory: Path) -> QuorumNode:
    """A voter whose two peers are never started."""
    return QuorumNode(1, directory, voters_at({each: free_port() for each in (1, 2, 3)}), "c")


async def follow_node_2(node: QuorumNode) -> None:
    partition = PartitionData(leader_id=2, leader_epoch=5)
    topic = TopicData(topic_name="__cluster_metadata", partitions=[partition])
    await answer(node.quorum, BeginQuorumEpochRequest(topics=[topic]), 0)
    assert node.quorum.leader_id == 2


@pytest.mark.parametrize("key", QUORUM_APIS)
async def test_a_request_that_names_no_partition_is_invalid_in_every_version(
    tmp_path: Path, key: ApiKey
) -> None:
    node = a_node(tmp_path)
    await node.start()
    await follow_node_2(node)
    api = APIS[key]
    for version in range(api.lowest_version, api.highest_version + 1):
        expected = ErrorCode.INVALID_REQUEST
        if key is ApiKey.FETCH and version < 12:
            # Fetch has this error from version 7 on.
            expected = ErrorCode.UNSUPPORTED_VERSION if version >= 7 else ErrorCode.NONE
        assert await error_of(node, key, version) == expected, version
    await node.stop()


async def test_only_versions_that_have_a_place_for_it_tell_the_leaders_address(
    tmp_path: Path,
) -> None:
    node = a_node(tmp_path)
    await node.start()
    await follow_node_2(node)
    for version, count in ((0, 0), (1, 1)):
        partition = PartitionData(leader_id=2, leader_epoch=5)
        topic = TopicData(topic_name="__cluster_metadata", partitions=[partition])
        response = await answer(node.quorum, BeginQuorumEpochRequest(topics=[topic]), version)
        assert len(getattr(response, "node_endpoints", ())) == count
        encode_bytes(response, version)
    await node.stop()


async def test_a_node_that_has_stopped_is_not_available(tmp_path: Path) -> None:
    node = a_node(tmp_path)
    await node.start()
    await node.stop()
    for key in QUORUM_APIS:
        version = APIS[key].highest_version
        assert await error_of(node, key, version) == ErrorCode.BROKER_NOT_AVAILABLE
    stopped = await answer(node.quorum, FetchRequest(), 18)
    assert getattr(stopped, "error_code", None) == ErrorCode.BROKER_NOT_AVAILABLE


async def test_a_voter_that_is_not_there_is_named_with_the_reason(tmp_path: Path) -> None:
    ports = {each: free_port() for each in (1, 2, 3)}
    node = QuorumNode(1, tmp_path, voters_at(ports), "c")
    await node.start()
    async with asyncio.timeout(60):
        while len(node.channel.refusals) < 2:  # noqa: ASYNC110 (no event tells of it)
            await asyncio.sleep(0.05)
    assert set(node.channel.refusals) == {f"127.0.0.1:{ports[each]}" for each in (2, 3)}
    assert all(node.channel.refusals.values())
    await node.stop()


async def test_a_voter_of_another_cluster_is_named_as_such(tmp_path: Path) -> None:
    ports = {each: free_port() for each in (1, 2, 3)}
    ours = QuorumNode(1, tmp_path / "ours", voters_at(ports), "c")
    other = QuorumNode(2, tmp_path / "other", voters_at(ports), "another cluster")
    await ours.start()
    await other.start()
    address = f"127.0.0.1:{ports[2]}"
    reason = f"{address} belongs to a cluster with another id"
    async with asyncio.timeout(60):
        while ours.channel.refusals.get(address) != reason:  # noqa: ASYNC110 (no event tells of it)
            await asyncio.sleep(0.05)
    await ours.stop()
    await other.stop()
