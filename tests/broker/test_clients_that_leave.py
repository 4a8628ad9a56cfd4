"""Clients that leave while the broker works for them, with each API whose answer can wait."""

import logging
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from tierlog.clients.protocol.schema import Message
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.compression import CompressionType
from tierlog.tests import wire

from ..broker_process import BrokerThread, RawClient
from ..waiting import wait_until

NAME = "topic"
TIME = int(time.time() * 1000)
COUNT = 100_000
CLIENTS = 20
CREATED, CLOSED = (
    f"kafka.server:type=socket-server-metrics,name=connection-{each}-total"
    for each in ("creation", "close")
)
MANY_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1) * 2_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    """A broker with one batch in which a look-up by time takes long."""
    properties = {"group.initial.rebalance.delay.ms": "600000"}
    with BrokerThread(tmp_path_factory.mktemp("data"), properties) as thread:
        with RawClient(thread.port) as client:
            topic = wire.CreatableTopic(name=NAME, num_partitions=1, replication_factor=1)
            client.ask(wire.CreateTopicsRequest(topics=[topic]), 7, wire.CreateTopicsResponse)
            client.ask(wire.FindCoordinatorRequest(key="group"), 2, wire.FindCoordinatorResponse)
            made = [Record(0, TIME + each // 2, b"k", b"v") for each in range(COUNT)]
            batch = bytes(build_batch(made, compression=CompressionType.GZIP))
            data = wire.TopicProduceData(
                name=NAME, partition_data=[wire.PartitionProduceData(index=0, records=batch)]
            )
            request = wire.ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data])
            produced = client.ask(request, 7, wire.ProduceResponse)
            assert not produced.responses[0].partition_responses[0].error_code
        yield thread


def fetch() -> tuple[Message, int]:
    asked = wire.FetchPartition(partition=0, fetch_offset=COUNT, partition_max_bytes=1)
    topic = wire.FetchTopic(topic=NAME, partitions=[asked])
    waiting = 0x7FFFFFFF
    return wire.FetchRequest(max_wait_ms=waiting, min_bytes=waiting, topics=[topic]), 11


def list_offsets() -> tuple[Message, int]:
    asked = wire.ListOffsetsPartition(partition_index=0, timestamp=TIME + COUNT // 2 - 1)
    topic = wire.ListOffsetsTopic(name=NAME, partitions=[asked])
    return wire.ListOffsetsRequest(replica_id=-1, topics=[topic]), 7


def join_group() -> tuple[Message, int]:
    protocol = wire.JoinGroupRequestProtocol(name="range", metadata=b"")
    return wire.JoinGroupRequest(
        group_id="group",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=600_000,
        protocol_type="consumer",
        protocols=[protocol],
    ), 3


@pytest.mark.parametrize("asked", [fetch, list_offsets, join_group])
def test_the_connections_of_clients_that_leave_are_released(
    broker: BrokerThread, asked: Callable[[], tuple[Message, int]], caplog: pytest.LogCaptureFixture
) -> None:
    assert broker.broker is not None
    metrics = broker.broker.metrics
    after = dict(metrics.read())[CREATED] + CLIENTS
    for _ in range(CLIENTS):
        with RawClient(broker.port) as client:
            client.send(*asked())
            client.socket.sendall(MANY_VERSIONS)
    counted = (after, after)
    wait_until(
        lambda: tuple(dict(metrics.read())[each] for each in (CREATED, CLOSED)) == counted,
        20,
        "connections are kept",
    )
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
