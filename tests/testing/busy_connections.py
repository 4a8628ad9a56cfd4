"""Connections that send one record after another, and note what was acknowledged."""

import socket
import struct
import threading
from typing import Self

from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from tierlog.clients.record.builder import RecordBatchBuilder
from tierlog.testing import Broker
from tierlog.tests import wire
from tierlog.tests.testing.broker_clients import TIMEOUT_S

ENOUGH = 50
"""How many acknowledgements each connection has before anything happens to the broker."""
_VERSION = 9


def _frame(topic: str) -> bytes:
    """A Produce request of one record for partition 0, with acks=all."""
    batch = RecordBatchBuilder()
    batch.append(1_700_000_000_000, b"k", b"v")
    partition = wire.PartitionProduceData(index=0, records=memoryview(batch.build()))
    request = wire.ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[wire.TopicProduceData(name=topic, partition_data=[partition])],
    )
    header = RequestHeader(ApiKey.PRODUCE, _VERSION, 0, "busy")
    body = encode_request_header(header) + encode_bytes(request, _VERSION)
    return struct.pack(">i", len(body)) + body


class BusyConnections:
    """Several connections, each with a thread; they end when they are cut off."""

    def __init__(self, broker: Broker, topic: str, connections: int = 4) -> None:
        self.offsets: list[int] = []
        """The offsets that were acknowledged, on whichever connection."""
        self._address = ("127.0.0.1", broker.port)
        self._frame = _frame(topic)
        self._are_busy = [threading.Event() for _ in range(connections)]
        self._threads = [
            threading.Thread(target=self._send, args=(is_busy,)) for is_busy in self._are_busy
        ]

    def __enter__(self) -> Self:
        """Return once each of them is in the middle of its work."""
        for thread in self._threads:
            thread.start()
        for is_busy in self._are_busy:
            assert is_busy.wait(TIMEOUT_S)
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join(TIMEOUT_S)
            assert not thread.is_alive(), "It was not cut off."

    def _send(self, is_busy: threading.Event) -> None:
        with socket.create_connection(self._address, TIMEOUT_S) as connection:
            count = 0
            try:
                while (offset := self._acknowledged(connection)) is not None:
                    self.offsets.append(offset)
                    count += 1
                    if count == ENOUGH:
                        is_busy.set()
            except ConnectionError:
                return

    def _acknowledged(self, connection: socket.socket) -> int | None:
        """Send a record; returns its offset, or None at the end of the stream."""
        connection.sendall(self._frame)
        head = connection.recv(4, socket.MSG_WAITALL)
        if len(head) < 4:
            return None
        (size,) = struct.unpack(">i", head)
        body = connection.recv(size, socket.MSG_WAITALL)
        if len(body) < size:
            return None
        _, position = decode_response_header(ApiKey.PRODUCE, _VERSION, memoryview(body))
        response, _ = decode(wire.ProduceResponse, _VERSION, memoryview(body), position)
        partition = response.responses[0].partition_responses[0]
        assert partition.error_code == 0, partition
        return partition.base_offset
