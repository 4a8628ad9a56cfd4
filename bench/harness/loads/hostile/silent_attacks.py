"""Attacks that hold something of the broker's by doing little or nothing, 200 connections each.

A client that only announces a request, sends it slowly, does not read, or asks for what takes long,
holds memory or a place in a queue that others need too.
"""

from collections.abc import Callable
from struct import pack

from .....clients.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from .....clients.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from .....clients.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from .....clients.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ...requests.wire import all_topics, prepare
from .attack import Again, Attack, Pace, always, many

PACKED_TOPIC = "hostile-packed"
"""A topic with one compressed batch of many records."""
PACKED_AT_MS = 1_700_000_000_000
"""The timestamp of its first record; each has a millisecond more."""
IDLE_TOPIC = "hostile-idle"
"""An empty topic."""

_CONNECTIONS = 200
_KIBIBYTE = 1 << 10
_LARGEST_BYTES = 100 << 20
"""Kafka's default of socket.request.max.bytes."""
_PRODUCE_HEADER = b"\x00\x00\x00\x09\x00\x00\x00\x01\xff\xff"
_FETCH_VERSION, _LOOK_UP_VERSION = 11, 7
_WAIT_MS = 60_000
_SESSION_PARTITIONS = 20_000
_TOKEN_BYTES = 500 * _KIBIBYTE
"""Little less than Kafka's default of sasl.server.max.receive.size."""


def packed_records(weight: float) -> int:
    """How many records the batch of PACKED_TOPIC has."""
    return many(200_000, weight)


def _announced(weight: float) -> Attack:
    """One request of 100 MiB and many of 1.5 MiB, of which 14 bytes are sent."""

    def content(number: int) -> bytes:
        return pack(">i", _LARGEST_BYTES if number == 0 else 1_536 * _KIBIBYTE) + _PRODUCE_HEADER

    return Attack(many(_CONNECTIONS, weight), content)


def _slow(sent_kib: int, kib_each_time: int) -> Callable[[float], Attack]:
    """Produce requests of 3 MiB that come in pieces, four a second."""

    def attack(weight: float) -> Attack:
        size = 3 << 20
        content = pack(">i", size) + _PRODUCE_HEADER + bytes(size - len(_PRODUCE_HEADER))
        pace = Pace(sent_kib * _KIBIBYTE, kib_each_time * _KIBIBYTE, 0.25)
        return Attack(many(_CONNECTIONS, weight), always(content), pace=pace)

    return attack


def _half_tokens(weight: float) -> Attack:
    """Half of a large token, before any login."""
    handshake = prepare(SaslHandshakeRequest(mechanism="PLAIN"), 1).frame
    token = prepare(SaslAuthenticateRequest(auth_bytes=bytes(_TOKEN_BYTES)), 2).frame
    content = handshake + token[: len(token) // 2]
    return Attack(many(_CONNECTIONS, weight), always(content))


def _unread(weight: float) -> Attack:
    """Metadata of all topics, asked for again and again; nobody reads the answers."""
    ask = all_topics().frame * many(1_000, weight)
    return Attack(many(_CONNECTIONS, weight), always(ask), again=Again.ALWAYS, reads=False)


def _long_polls(weight: float) -> Attack:
    """Fetches that wait for a minute, in a topic without records."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=IDLE_TOPIC, partitions=[partition])
    request = FetchRequest(max_wait_ms=_WAIT_MS, min_bytes=1, max_bytes=1 << 20, topics=[topic])
    content = prepare(request, _FETCH_VERSION).frame
    return Attack(many(_CONNECTIONS, weight), always(content), again=Again.ANSWERED)


def _sessions(weight: float) -> Attack:
    """Fetch sessions of many partitions, which are opened and not used."""
    partitions = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
        for number in range(many(_SESSION_PARTITIONS, weight))
    ]
    topic = FetchTopic(topic=IDLE_TOPIC, partitions=partitions)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_epoch=0, topics=[topic]
    )
    content = prepare(request, _FETCH_VERSION).frame
    return Attack(many(_CONNECTIONS, weight), always(content))


def _look_ups(weight: float) -> Attack:
    """Look-ups of the last record of a compressed batch, by its time."""
    last_ms = PACKED_AT_MS + packed_records(weight) - 1
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=PACKED_TOPIC,
                partitions=[ListOffsetsPartition(partition_index=0, timestamp=last_ms)],
            )
        ],
    )
    content = prepare(request, _LOOK_UP_VERSION).frame
    return Attack(many(_CONNECTIONS, weight), always(content), again=Again.ANSWERED)


def _half_http(weight: float) -> Attack:
    """Half the head of a request to the status page."""
    return Attack(many(_CONNECTIONS, weight), always(b"GET / HTTP/1.1\r\nHost: "))


SILENT_ATTACKS: dict[str, Callable[[float], Attack]] = {
    "announced": _announced,
    "slow": _slow(64, 1),
    "slow_and_large": _slow(480, 4),
    "half_tokens": _half_tokens,
    "unread": _unread,
    "long_polls": _long_polls,
    "sessions": _sessions,
    "look_ups": _look_ups,
    "half_http": _half_http,
}
