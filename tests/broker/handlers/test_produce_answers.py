"""Answers of Produce requests that found another leader, in each version."""

from typing import cast

import pytest

from tierlog.broker.handlers.produce import to_response
from tierlog.broker.request.context import BrokerContext, Node, RequestContext
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.partition.append_data import AppendEntry
from tierlog.replication.partition.fetch_data import CurrentLeader
from tierlog.tests import wire

LEADER = Node(2, "127.0.0.1", 9092, None)


class _Cluster:
    """What the answer looks up of the cluster."""

    def nodes(self, node_ids: set[int], listener: str) -> list[Node]:
        assert (node_ids, listener) == ({2}, "PLAINTEXT")
        return [LEADER]


@pytest.mark.parametrize("version", range(3, 14))
def test_a_client_of_any_version_hears_that_another_broker_leads(version: int) -> None:
    """Found by a torture run: versions before 10 cannot name the leader, and got no answer."""
    data = wire.PartitionProduceData(index=0, records=memoryview(b""))
    request = wire.ProduceRequest(
        topic_data=[wire.TopicProduceData(name="t", partition_data=[data])]
    )
    entry = AppendEntry(
        TopicPartition("t", 0),
        memoryview(b""),
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        current_leader=CurrentLeader(2, 5),
    )
    context = RequestContext(ApiKey.PRODUCE, version, "me", "here", "PLAINTEXT")
    made = to_response(cast("BrokerContext", _Cluster()), context, request, [entry])
    answer, _ = decode(wire.ProduceResponse, version, encode_bytes(made, version))
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    names_leader = version >= 10
    assert partition.current_leader.leader_id == (2 if names_leader else -1)
    assert [node.node_id for node in answer.node_endpoints] == [2] * names_leader
