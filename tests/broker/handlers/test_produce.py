"""Produce as a client meets it: what is answered, what is not, and when the connection goes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.tests import wire

from ...broker_process import BrokerThread, RawClient


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        topic = wire.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        request = wire.CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
        assert client.ask(request, 7, wire.CreateTopicsResponse).topics[0].error_code == 0
        yield broker.port


def production(acks: int, *topics: str, damaged: bool = False) -> wire.ProduceRequest:
    batch = build_batch([Record(0, 1_700_000_000_000, None, b"v", ())])
    if damaged:
        batch[-1] ^= 0xFF
    return wire.ProduceRequest(
        acks=acks,
        timeout_ms=5_000,
        topic_data=[
            wire.TopicProduceData(
                name=topic,
                partition_data=[
                    wire.PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
                ],
            )
            for topic in topics
        ],
    )


def end_offset(client: RawClient) -> int:
    asked = wire.ListOffsetsTopic(name="t", partitions=[wire.ListOffsetsPartition(timestamp=-1)])
    answer = client.ask(
        wire.ListOffsetsRequest(replica_id=-1, topics=[asked]), 5, wire.ListOffsetsResponse
    )
    return answer.topics[0].partitions[0].offset


def test_without_acks_nothing_is_answered_and_all_of_it_is_kept(port: int) -> None:
    with RawClient(port) as client:
        for _ in range(3):
            client.send(production(0, "t"), 9)
        # The first answer that comes is that of this request.
        assert client.ask(wire.ApiVersionsRequest(), 0, wire.ApiVersionsResponse).error_code == 0
        assert end_offset(client) == 3


@pytest.mark.parametrize(
    "asked",
    [production(0, "missing"), production(0, "t", "missing"), production(0, "t", damaged=True)],
)
def test_without_acks_a_failure_ends_the_connection(port: int, asked: wire.ProduceRequest) -> None:
    with RawClient(port) as client:
        client.send(asked, 9)
        assert client.is_closed()
    with RawClient(port) as client:
        assert end_offset(client) == len(asked.topic_data) - 1


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_refused_for_each_partition_and_nothing_is_kept(
    port: int, acks: int
) -> None:
    with RawClient(port) as client:
        answer = client.ask(production(acks, "t", "missing"), 9, wire.ProduceResponse)
        codes = [each.partition_responses[0].error_code for each in answer.responses]
        assert codes == [21, 3]
        assert end_offset(client) == 0
