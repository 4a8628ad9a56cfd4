"""Clients that mean no good, or know no better: whoever else is there is served as before.

Nobody's memory is the broker's: what a client announces, sends in single bytes, asks for and never
reads, costs little however many of them there are.
"""

import resource
import socket
import struct
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tierlog.clients.protocol.codec import encode_bytes
from tierlog.clients.protocol.header import RequestHeader, encode_request_header
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.tests import wire
from tierlog.tests.broker_process import BrokerProcess, RawClient
from tierlog.tests.scenarios.foreign_clients import CLIENTS
from tierlog.tests.scenarios.plain_io import PlainProducer, produce, read, value_of
from tierlog.tests.waiting import wait_until

TOPIC = "wanted"
RECORDS = 20_000
GROWTH_MAX_MIB = 64
MANY = 5_000
BESIDE = "beside"
A_WHILE_S = 5.0
"""Nobody waits for longer than a second; the machine may be busy with other things."""
ASK_FOR_ALL = wire.MetadataRequest(topics=None)


def resident_mib(broker: BrokerProcess) -> int:
    status = Path(f"/proc/{broker.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024


@contextmanager
def others_are_served(broker: BrokerProcess) -> Generator[ExitStack]:
    """While whatever is put on the stack is open, and afterwards."""
    before = resident_mib(broker)
    with ExitStack() as hostile:
        yield hostile
        assert read(broker.bootstrap, TOPIC, RECORDS)[-1] == (RECORDS - 1, value_of(RECORDS - 1))
        assert resident_mib(broker) < before + GROWTH_MAX_MIB
    with RawClient(broker.port) as client:
        assert client.ask(ASK_FOR_ALL, 12, wire.MetadataResponse).brokers
    assert "Traceback" not in broker.log.read_text()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess.on(tmp_path_factory.mktemp("hostile")) as broker:
        for name in (TOPIC, BESIDE):
            CLIENTS["confluent-kafka"].create_topic(broker.bootstrap, name, {})
        sent = produce(broker.bootstrap, TOPIC, map(value_of, range(RECORDS)), timeout_ms=30_000)
        assert len(sent.acknowledged) == RECORDS
        yield broker
        assert broker.stop() == 0


def raw(broker: BrokerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), 20)


@pytest.mark.slow
def test_requests_that_come_in_single_bytes(broker: BrokerProcess) -> None:
    body = encode_request_header(RequestHeader(3, 12, 7, "drip")) + encode_bytes(ASK_FOR_ALL, 12)
    with others_are_served(broker) as hostile:
        drips = [hostile.enter_context(raw(broker)) for _ in range(50)]
        for byte in struct.pack(">i", len(body)) + body:
            for each in drips:
                each.sendall(bytes([byte]))
        assert all(len(each.recv(4, socket.MSG_WAITALL)) == 4 for each in drips)


@pytest.mark.slow
def test_sizes_that_are_announced_and_never_sent(broker: BrokerProcess) -> None:
    with others_are_served(broker) as hostile:
        for _ in range(200):
            hostile.enter_context(raw(broker)).sendall(struct.pack(">i", 100_000_000) + b"x" * 99)


def longest_produce_s(broker: BrokerProcess, *sizes: int) -> float:
    """How long the slowest of some requests takes of a client that sends what it announces."""
    longest = 0.0
    with RawClient(broker.port) as client:
        for size in sizes * 5:
            batch = bytes(build_batch([Record(0, 0, b"k", bytes(size))]))
            data = wire.PartitionProduceData(index=0, records=batch)
            request = wire.ProduceRequest(
                acks=-1,
                timeout_ms=30_000,
                topic_data=[wire.TopicProduceData(name=BESIDE, partition_data=[data])],
            )
            began = time.monotonic()
            answer = client.ask(request, 7, wire.ProduceResponse)
            longest = max(longest, time.monotonic() - began)
            assert not answer.responses[0].partition_responses[0].error_code
    return longest


def announce(sent: int, hostile: ExitStack, broker: BrokerProcess, sizes: list[int]) -> None:
    """Connections that announce such requests, send some of it, and then nothing."""
    piece = bytes(sent)
    for size in sizes:
        client = hostile.enter_context(raw(broker))
        client.setblocking(False)
        # The broker may close such a connection before it has said all.
        with suppress(BlockingIOError, ConnectionError):
            client.sendall(struct.pack(">i", size) + piece)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [14, 70_000])
def test_nine_that_announce_all_the_memory_keep_nobody_waiting(
    broker: BrokerProcess, sent: int
) -> None:
    with others_are_served(broker) as hostile:
        announce(sent, hostile, broker, [100 << 20, *[3_276_800] * 8])
        assert longest_produce_s(broker, 1_000, 30_000, 900_000) < A_WHILE_S


@pytest.mark.slow
def test_two_hundred_that_send_two_megabytes_and_stop(broker: BrokerProcess) -> None:
    before = resident_mib(broker)
    with ExitStack() as hostile:
        announce(2 << 20, hostile, broker, [3 << 20, 100 << 20] * 100)
        assert longest_produce_s(broker, 1_000, 30_000, 900_000) < A_WHILE_S
        assert resident_mib(broker) < before + 256


@pytest.mark.slow
@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 0, 3])
def test_sizes_that_cannot_be(broker: BrokerProcess, size: int) -> None:
    with others_are_served(broker) as hostile:
        client = hostile.enter_context(RawClient(broker.port))
        client.socket.sendall(struct.pack(">i", size) + b"\0" * 3)
        assert client.is_closed()


@pytest.mark.slow
def test_thousands_of_connections_that_say_nothing(broker: BrokerProcess) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, MANY + 1_000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        with others_are_served(broker) as hostile:
            for _ in range(wanted - 1_000):
                hostile.enter_context(raw(broker))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_clients_that_ask_for_megabytes_and_never_read(broker: BrokerProcess) -> None:
    topic = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=TOPIC)])
    with RawClient(broker.port) as client:
        topic_id = client.ask(topic, 12, wire.MetadataResponse).topics[0].topic_id
    partition = wire.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50_000_000)
    fetch = wire.FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=50_000_000,
        session_epoch=-1,
        topics=[wire.FetchTopic(topic_id=topic_id, partitions=[partition])],
    )
    with others_are_served(broker) as hostile:
        for _ in range(50):
            client = hostile.enter_context(RawClient(broker.port))
            for _ in range(20):
                client.send(fetch, 13)


@pytest.mark.slow
def test_requests_that_are_sent_all_at_once_are_answered_in_order(broker: BrokerProcess) -> None:
    with others_are_served(broker) as hostile:
        client = hostile.enter_context(RawClient(broker.port))
        headers = [client.send(ASK_FOR_ALL, 12) for _ in range(2_000)]
        assert all(isinstance(client.receive(header), wire.MetadataResponse) for header in headers)


@pytest.mark.slow
def test_idle_connections_leave_descriptors_for_the_logs(tmp_path: Path) -> None:
    few = 300
    with BrokerProcess.on(tmp_path) as broker, ExitStack() as hostile:
        CLIENTS["confluent-kafka"].create_topic(
            broker.bootstrap, TOPIC, {"segment.bytes": "1048576"}
        )
        resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (few, few))
        producer = PlainProducer(broker.bootstrap, TOPIC)
        assert producer.send([b"connected before the crowd"]).refused == []
        for _ in range(2 * few):
            hostile.enter_context(raw(broker))
        wait_until(
            lambda: "Cannot accept new connections" in broker.log.read_text(), 20, "all accepted"
        )
        # Several new segments, each of which opens files.
        assert producer.send(map(value_of, range(5_000))).refused == []
        hostile.close()
        assert len(read(broker.bootstrap, TOPIC, 5_001)) == 5_001
        assert broker.stop() == 0
