"""A cache of Produce requests that repeat except for their records, and so need no decoding.

A producer's requests hardly differ: the topic, partition and acks are the same; only the records
and their length change. If the bytes before the records equal those of a request that was decoded
earlier, the response is the earlier one with other numbers. Only the append remains to be done
(docs/decisions/012).

Only the simple, frequent kind of request is cached: one partition, no transactional id, acks other
than 0. Other requests, and those refused before the append, are decoded.
"""

import asyncio
from struct import Struct, error as StructError
from typing import TYPE_CHECKING, NamedTuple, cast

from ...clients.errors import ErrorCode, ProtocolError
from ...clients.protocol.api import APIS
from ...clients.protocol.codec import encode_bytes
from ...clients.protocol.messages.produce import ProduceRequest, ProduceResponse
from ...clients.protocol.primitives import read_unsigned_varint
from ...clients.protocol.schema import Chunk, Message
from ...clients.topic_partition import TopicPartition
from ...replication.partition.append_data import AppendEntry, AppendRequest
from ...storage.log.log_validator import plain_work
from ..handlers.produce import objection, to_response, topic_name
from ..request.context import BrokerContext, Deferred, RequestContext
from .request_cache import NUMBERS, PLACEHOLDERS, SIZE, response_layout

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_CACHED_VERSION = 5
"""The first whose response has the log's start; kafkajs and Sarama use 7, Kafka's own clients the
newest."""

_FIRST_WITH_TOPIC_IDS = 13
_NO_TAGS = memoryview(b"\0\0\0")
"""The end of a flexible request: empty tagged fields of the partition, the topic and the request.
"""
_BEFORE_TOPIC, _AFTER_TOPIC = 8, 5
"""Bytes of a flexible request before and after its topic: no transactional id, acks, the timeout
and the number of topics; the number of partitions and the partition. A name has its length before
it, which counts itself.
"""
_BEFORE_TOPIC_PLAIN, _AFTER_TOPIC_PLAIN = 14, 8
"""The same of a request that is not flexible, with the length of the topic's name before it."""
_TOPIC_ID_BYTES = 16
CACHED_MAX = 256
"""The most requests that are cached per connection: each takes a kilobyte or two."""

_LEFT_OUT_TIMES = 16
"""When so many times as many requests were not cached for want of room, all others go."""


class _CachedRequest(NamedTuple):
    """A decoded request, and its response without base offset, append time and log start."""

    request: ProduceRequest
    partition: TopicPartition
    response: Struct
    before: bytes
    after: bytes


class ProduceRequestCache:
    """The cached requests of one connection, as long as their headers are the same."""

    __slots__ = (
        "_body",
        "_broker",
        "_context",
        "_entries",
        "_is_flexible",
        "_left_out",
        "_records_from",
    )

    def __init__(self, broker: BrokerContext, context: RequestContext, body: int) -> None:
        """`body` is the position at which the header of each of these requests ends."""
        self._broker = broker
        self._context = context
        self._body = body
        self._is_flexible = APIS[context.api_key].is_flexible(context.api_version)
        self._records_from = _records if self._is_flexible else _last_records
        # Keyed by the bytes between the header and the length of the records. There are none until
        # the second request: many connections have only one.
        self._entries: dict[bytes, _CachedRequest] | None = None
        self._left_out = 0

    def answer(
        self, frame: memoryview, correlation_id: int
    ) -> list[Chunk] | ProduceResponse | Deferred[object] | None:
        """See `RequestCache`."""
        if self._entries is None:
            return None
        at = self._length_at(frame)
        cached = self._entries.get(bytes(frame[self._body : at]))
        if cached is None:
            return None
        records = self._records_from(frame, at)
        if records is None:
            return None
        request, partition = cached.request, cached.partition
        version = self._context.api_version
        if topic_name(self._broker, version, request.topic_data[0]) != partition.topic:
            return None
        entry = AppendEntry(partition, records)
        if not plain_work(records) and (
            objection(version, partition.topic, records) is not None
            or self._broker.replica_manager.needs_long_check(entry)
        ):
            return None
        self._broker.bytes_in.value += len(records)
        appending = AppendRequest(
            [entry], request.acks, request.timeout_ms, sender=self._context.client_id
        )
        outcome = self._broker.replica_manager.append_records(appending)
        if isinstance(outcome, asyncio.Future):

            def respond(_: object) -> "list[Chunk] | ProduceResponse":
                return self._respond(cached, entry, correlation_id)

            # The dispatch sends an encoded response as it is.
            then = cast("Callable[[object], ProduceResponse]", respond)
            return Deferred(cast("asyncio.Future[object]", outcome), then)
        return self._respond(cached, entry, correlation_id)

    def _respond(
        self, cached: _CachedRequest, entry: AppendEntry, correlation_id: int
    ) -> list[Chunk] | ProduceResponse:
        if entry.error:
            return self._to_response(cached.request, entry)
        response = cached.response
        framed = response.pack(
            response.size - 4,
            correlation_id,
            cached.before,
            entry.base_offset,
            entry.log_append_time_ms,
            entry.log_start_offset,
            cached.after,
        )
        return [framed]

    def _to_response(self, request: ProduceRequest, entry: AppendEntry) -> ProduceResponse:
        return to_response(self._broker, self._context, request, [entry])

    def put(self, frame: memoryview, request: Message, response: Message | None) -> None:
        """See `RequestCache`."""
        assert isinstance(request, ProduceRequest), "This cache holds Produce requests only."
        if request.transactional_id is not None or len(request.topic_data) != 1:
            return
        entries = self._with_room()
        if entries is None:
            return
        (topic,) = request.topic_data
        if len(topic.partition_data) != 1:
            return
        (data,) = topic.partition_data
        if not isinstance(data.records, memoryview):
            return
        if response is not None:
            assert isinstance(response, ProduceResponse), "A Produce request has such a response."
            (result,) = response.responses[0].partition_responses
            if result.error_code != ErrorCode.NONE:
                return
        at = self._length_at(frame)
        last = self._records_from(frame, at)
        if last is None or len(last) != len(data.records):
            return
        data.records = None
        before = bytes(frame[self._body : at])
        if not encode_bytes(request, self._context.api_version).startswith(before):
            # The client encodes in another way.
            return
        name = topic_name(self._broker, self._context.api_version, topic)
        entries[before] = self._entry_of(request, TopicPartition(name, data.index))

    def _with_room(self) -> dict[bytes, _CachedRequest] | None:
        """The entries, if one more request may be cached."""
        entries = self._entries
        if entries is None:
            self._entries = {}
            return None
        if len(entries) < CACHED_MAX:
            return entries
        self._left_out += 1
        if self._left_out == CACHED_MAX * _LEFT_OUT_TIMES:
            # Perhaps these are of partitions that get nothing any more.
            entries.clear()
            self._left_out = 0
        return None

    def _length_at(self, frame: memoryview) -> int:
        """The position of the length of the records in a request of the cached kind.

        In another one it is anywhere; the bytes before it are then not those of a cached request.
        """
        body, version = self._body, self._context.api_version
        if version >= _FIRST_WITH_TOPIC_IDS:
            return body + _BEFORE_TOPIC + _TOPIC_ID_BYTES + _AFTER_TOPIC
        if not self._is_flexible:
            name_at = body + _BEFORE_TOPIC_PLAIN
            # Names have at most 249 characters.
            name_bytes = frame[name_at - 1] if name_at <= len(frame) else 0
            return name_at + name_bytes + _AFTER_TOPIC_PLAIN
        name_at = body + _BEFORE_TOPIC
        if name_at + 2 > len(frame):
            return body
        length, more = frame[name_at], frame[name_at + 1]
        if length < 0x80:
            return name_at + length + _AFTER_TOPIC
        return name_at + 1 + (length & 0x7F | more << 7) + _AFTER_TOPIC

    def _entry_of(self, request: ProduceRequest, partition: TopicPartition) -> _CachedRequest:
        base_offset, append_time_ms, log_start = PLACEHOLDERS
        entry = AppendEntry(partition, memoryview(b""))
        entry.base_offset = base_offset
        entry.log_append_time_ms = append_time_ms
        entry.log_start_offset = log_start
        encoded = encode_bytes(self._to_response(request, entry), self._context.api_version)
        before, _, after = encoded.rpartition(NUMBERS.pack(*PLACEHOLDERS))
        layout = response_layout(self._is_flexible, f"{len(before)}sqqq{len(after)}s")
        return _CachedRequest(request, partition, layout, before, after)


def _last_records(frame: memoryview, at: int) -> memoryview | None:
    """The records whose length is at `at`, if they are the end of a request without tags."""
    try:
        (size,) = SIZE.unpack_from(frame, at)
    except StructError:
        return None
    start = at + SIZE.size
    return frame[start:] if size == len(frame) - start else None


def _records(frame: memoryview, at: int) -> memoryview | None:
    """The records whose length is at `at`, if they are the end of a flexible request."""
    try:
        # Most lengths take two bytes, which are decoded inline.
        size, start = (
            (b & 0x7F | c << 7, at + 2)
            if (b := frame[at]) >= 0x80 and (c := frame[at + 1]) < 0x80
            else read_unsigned_varint(frame, at)
        )
    except (IndexError, ProtocolError):
        return None
    end = start + size - 1
    return frame[start:end] if size and frame[end:] == _NO_TAGS else None
