"""Sends small, pre-encoded requests as fast as one connection allows.

Run as `python -m tierlog.bench.harness.loads.raw_requests produce|fetch|session_fetch …`; prints
one JSON object. A full client would be the bottleneck here, not the broker. So a request is encoded
once and sent repeatedly over a plain socket, and its responses, which all have one size, are
compared in place. `--in-flight` is the number of requests in flight at once.

- `produce`: one record per request. Each response must have no error and the next offset.
- `fetch`: one partition at its end, without waiting; a full fetch request (no session).
- `session_fetch`: the same in a fetch session (KIP-227), where neither request nor response lists a
  partition.
"""

import argparse
import json
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct

from ....clients.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ....clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ....clients.protocol.schema import Message
from ....clients.record.batch import Record
from ....clients.record.builder import build_batch
from ..requests.wire import Wire, decoded, prepare
from .load import LoadError, values

PRODUCE_VERSION = 7
FETCH_VERSION = 11
"""The last version with fixed-size fields, so that responses can be compared in place."""

_TIMEOUT_MS = 30_000
_SIZE_AND_CORRELATION_ID = 8
_ERROR_AND_OFFSET = Struct(">hq")
_EPOCH = Struct(">i")
_RECEIVE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class RawOrder:
    """The task of this process."""

    kind: str
    bootstrap: str
    topic: str
    requests: int
    in_flight: int
    record_bytes: int
    acks: str


Check = Callable[[memoryview, int, int], None]
"""Checks responses: (buffer, number of responses in it, number of the first one among all)."""


@dataclass(frozen=True, slots=True)
class _Exchange:
    """The bytes of requests by number, the size of a response, and the check of responses."""

    frames: Callable[[int, int], bytes]
    answer_size: int
    check: Check


def _produce(wire: Wire, order: RawOrder) -> _Exchange:
    """Prepare produce requests; sends the first record and decodes its response."""
    value = values(order.record_bytes)[0]
    batch = bytes(build_batch([Record(0, time.time_ns() // 1_000_000, None, value)]))
    request = ProduceRequest(
        acks=-1 if order.acks == "all" else int(order.acks),
        timeout_ms=_TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                name=order.topic, partition_data=[PartitionProduceData(index=0, records=batch)]
            )
        ],
    )
    prepared = prepare(request, PRODUCE_VERSION)
    wire.send(prepared)
    answer = wire.receive()
    partition_response = (
        decoded(answer, prepared.header, ProduceResponse).responses[0].partition_responses[0]
    )
    if partition_response.error_code or partition_response.base_offset:
        raise LoadError(f"the first record was answered with {partition_response}")
    size = _EPOCH.size + len(answer)
    # After the sizes of two arrays, the topic's name and the partition's index.
    position = _SIZE_AND_CORRELATION_ID + 4 + 2 + len(order.topic.encode()) + 4 + 4

    def check(answers: memoryview, count: int, first: int) -> None:
        for index in range(count):
            error_and_offset = _ERROR_AND_OFFSET.unpack_from(answers, index * size + position)
            if error_and_offset != (0, first + index + 1):
                raise LoadError(f"record {first + index + 1} was answered with {error_and_offset}")

    return _Exchange(lambda _first, count: prepared.frame * count, size, check)


def _same_answers(answer: bytes) -> Check:
    """A check that every response equals this one."""
    expected = answer

    def check(answers: memoryview, count: int, _first: int) -> None:
        nonlocal expected
        if len(expected) < count * len(answer):
            expected = answer * count
        if answers != memoryview(expected)[: count * len(answer)]:
            raise LoadError("a fetch response differs from the first one")

    return check


def _fetch_request(order: RawOrder, end: int, session_epoch: int) -> FetchRequest:
    partition = FetchPartition(
        partition=0, fetch_offset=end, partition_max_bytes=1 << 20, log_start_offset=-1
    )
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic=order.topic, partitions=[partition])],
    )


def _first_answer(wire: Wire, request: Message) -> tuple[bytes, FetchResponse]:
    prepared = prepare(request, FETCH_VERSION)
    wire.send(prepared)
    answer = wire.receive()
    response = decoded(answer, prepared.header, FetchResponse)
    codes = {part.error_code for each in response.responses for part in each.partitions}
    if response.error_code or codes - {0}:
        raise LoadError(f"the first fetch was answered with {response}")
    return _EPOCH.pack(len(answer)) + bytes(answer), response


def _fetch(wire: Wire, order: RawOrder) -> _Exchange:
    request = _fetch_request(order, 0, -1)
    answer, response = _first_answer(wire, request)
    if not response.responses or response.responses[0].partitions[0].records:
        raise LoadError(f"the topic is not empty: {response}")
    frame = prepare(request, FETCH_VERSION).frame
    return _Exchange(lambda _first, count: frame * count, len(answer), _same_answers(answer))


def _session_fetch(wire: Wire, order: RawOrder) -> _Exchange:
    """Open a session, in which each request has the next epoch."""
    _, opened = _first_answer(wire, _fetch_request(order, 0, 0))
    session = opened.session_id

    def following(epoch: int) -> FetchRequest:
        return FetchRequest(max_wait_ms=0, min_bytes=0, session_id=session, session_epoch=epoch)

    answer, response = _first_answer(wire, following(1))
    if not session or response.responses:
        raise LoadError(f"no session was opened: {response}")
    frame = bytearray(prepare(following(1), FETCH_VERSION).frame)
    # The request ends with the epoch, two empty arrays and an empty rack.
    position = len(frame) - (4 + 4 + 4 + 2)
    pack = _EPOCH.pack_into

    def frames(first: int, count: int) -> bytes:
        made = frame * count
        for index in range(count):
            # Epochs 0 and 1 are already used.
            pack(made, index * len(frame) + position, first + index + 2)
        return bytes(made)

    return _Exchange(frames, len(answer), _same_answers(answer))


_KINDS = {"produce": _produce, "fetch": _fetch, "session_fetch": _session_fetch}


def exchange_all(connection: socket.socket, exchange: _Exchange, order: RawOrder) -> float:
    """Send all requests and check all responses; returns the seconds.

    Raises LoadError for a wrong or missing response.
    """
    frames, size, check = exchange.frames, exchange.answer_size, exchange.check
    buffer = memoryview(bytearray(max(_RECEIVE_BYTES, size * order.in_flight)))
    started = time.perf_counter()
    sent = answered = have = 0
    while answered < order.requests:
        count = min(order.in_flight - (sent - answered), order.requests - sent)
        if count:
            connection.sendall(frames(sent, count))
            sent += count
        received = connection.recv_into(buffer[have:])
        if not received:
            raise LoadError(f"the broker hung up after {answered} answers")
        have += received
        complete, rest = divmod(have, size)
        if complete:
            check(buffer[: complete * size], complete, answered)
            answered += complete
            buffer[:rest] = buffer[have - rest : have]
            have = rest
    return time.perf_counter() - started


def run(order: RawOrder) -> dict[str, float]:
    """Open a connection, determine the form of a response, and send all requests."""
    with Wire(order.bootstrap) as wire:
        exchange = _KINDS[order.kind](wire, order)
        seconds = exchange_all(wire.socket, exchange, order)
    return {"seconds": seconds, "requests": order.requests}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="tierlog.bench.harness.loads.raw_requests", description=__doc__
    )
    parser.add_argument("kind", choices=tuple(_KINDS))
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT of the broker")
    parser.add_argument("--topic", required=True, help="an empty topic with one partition")
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--in-flight", type=int, default=1)
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--acks", default="all", choices=("1", "all"))
    order = RawOrder(**vars(parser.parse_args(arguments)))
    json.dump(run(order), sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
