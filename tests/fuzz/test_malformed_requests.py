"""Whatever bytes arrive: an answer or a closed connection, and nobody else is harmed.

A fault of ours would show as a traceback in the log, as a connection that hangs, or as a client
that is served no more; each of them fails here.
"""

import logging
import struct
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tierlog.clients.protocol.api import SERVED, request_class
from tierlog.clients.protocol.codec import encode_bytes
from tierlog.clients.protocol.header import RequestHeader, encode_request_header
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.tests import wire

from ..broker_process import BrokerThread, RawClient

OFTEN = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

VERSIONS = [
    (key, version)
    for key, api in SERVED.items()
    for version in range(max(api.lowest_version, 3 if key == 0 else 0), api.highest_version + 1)
]

BATCH = bytes(build_batch([Record(0, 1_700_000_000_000, b"key", b"value", ())]))


class Watch:
    """A broker, a well-behaved client of it, and the log that must stay without tracebacks."""

    def __init__(self, broker: BrokerThread, log: list[logging.LogRecord]) -> None:
        self.port = broker.port
        self.log = log
        self.good = RawClient(broker.port)

    def check(self) -> None:
        """The good client is still served, and nothing of ours went wrong."""
        self.good.ask(wire.MetadataRequest(topics=[]), 12, wire.MetadataResponse)
        faults = [record for record in self.log if record.levelno >= logging.ERROR]
        assert not faults, [record.getMessage() for record in faults]

    def send(self, *frames: bytes) -> None:
        """Send frames on a connection of their own; each is answered, or the connection ends."""
        with RawClient(self.port, timeout_s=10) as client:
            try:
                for frame in frames:
                    client.send_frame(frame)
                    client.receive_frame()
            except (EOFError, ConnectionError):
                pass
        self.check()


class _Keep(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    handler = _Keep()
    logging.getLogger().addHandler(handler)
    try:
        with BrokerThread(tmp_path_factory.mktemp("data")) as broker:
            watch = Watch(broker, handler.records)
            topics = [wire.CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
            watch.good.ask(wire.CreateTopicsRequest(topics=topics), 7, wire.CreateTopicsResponse)
            yield watch
            watch.good.socket.close()
    finally:
        logging.getLogger().removeHandler(handler)


def header(key: int, version: int) -> bytes:
    return encode_request_header(RequestHeader(key, version, 1, "fuzz"))


@OFTEN
@given(st.binary(max_size=300))
def test_any_bytes_as_a_frame(watch: Watch, body: bytes) -> None:
    watch.send(body)


@OFTEN
@given(st.sampled_from(VERSIONS), st.binary(max_size=200))
def test_any_bytes_behind_a_good_header(watch: Watch, api: tuple[int, int], body: bytes) -> None:
    # Produce without acks gets no answer: a Metadata request behind it does.
    watch.send(
        header(*api) + body, header(3, 12) + encode_bytes(wire.MetadataRequest(topics=[]), 12)
    )


@OFTEN
@given(st.sampled_from(VERSIONS), st.data())
def test_a_valid_request_with_some_bytes_changed(
    watch: Watch, api: tuple[int, int], data: st.DataObject
) -> None:
    body = bytearray(encode_bytes(request_class(api[0])(), api[1]))
    for _ in range(data.draw(st.integers(0, 4))):
        if body:
            position = data.draw(st.integers(0, len(body) - 1))
            body[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    request = bytes(body) if data.draw(st.booleans()) else bytes(body[:cut])
    with_answer = header(3, 12) + encode_bytes(wire.MetadataRequest(topics=[]), 12)
    with RawClient(watch.port, timeout_s=10) as client:
        # A long poll of a fetch, or a rebalance, may keep the answer away for long: do not wait.
        client.send_frame(header(*api) + request)
        client.send_frame(with_answer)
    watch.check()


@OFTEN
@given(st.data())
def test_a_batch_with_some_bytes_changed(watch: Watch, data: st.DataObject) -> None:
    batch = bytearray(BATCH)
    for _ in range(data.draw(st.integers(1, 5))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        batch = batch[: data.draw(st.integers(0, len(batch)))]
    if data.draw(st.booleans()) and len(batch) > 21:
        from crc32c import crc32c

        struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    topics = [
        wire.TopicProduceData(name="t", partition_data=[wire.PartitionProduceData(records=batch)])
    ]
    request = wire.ProduceRequest(acks=1, timeout_ms=1_000, topic_data=topics)
    with RawClient(watch.port, timeout_s=10) as client:
        client.ask(request, 9, wire.ProduceResponse)
    watch.check()


@settings(max_examples=50, deadline=None)
@given(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=20))
def test_any_size_and_then_nothing(watch: Watch, size: int, begun: bytes) -> None:
    with RawClient(watch.port) as client:
        client.socket.sendall(struct.pack(">i", size) + begun)
        if size < 0 or size > 104_857_600:
            assert client.is_closed()
    watch.check()


def test_many_half_requests_at_once_cost_no_one_anything(watch: Watch) -> None:
    clients = [RawClient(watch.port) for _ in range(200)]
    for number, client in enumerate(clients):
        client.socket.sendall(struct.pack(">i", 100_000_000) + bytes(number))
    watch.check()
    for client in clients:
        client.socket.close()
    watch.check()
