"""A cache of Produce requests that repeat except for their records, and so need no decoding.

A producer's requests hardly differ: the topic, partition and acks are the same; only the records
and their length change. If the bytes before the records equal those of a request that was decoded
earlier, the response is the earlier one with other numbers. Only the append remains to be done
(docs/decisions/012).

Only the simple, frequent kind of request is cached: one partition, no transactional id, acks other
than 0, a flexible version. Other requests, and those refused before the append, are decoded.
"""

import asyncio
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, cast

from ...clients.errors import ErrorCode, ProtocolError
from ...clients.protocol.codec import encode_bytes
from ...clients.protocol.messages.produce import ProduceRequest, ProduceResponse
from ...clients.protocol.primitives import read_unsigned_varint, unsigned_varint
from ...clients.protocol.schema import Chunk, Message
from ...clients.topic_partition import TopicPartition
from ...replication.partition.append_data import AppendEntry, AppendRequest
from ...storage.log.log_validator import plain_work
from ..handlers.produce import objection, to_response, topic_name
from ..request.context import BrokerContext, Deferred, RequestContext
from .request_cache import CACHED_MAX, NUMBERS, PLACEHOLDERS

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_CACHED_VERSION = 9
"""The first flexible version; librdkafka uses 10, Kafka's own clients the newest."""

_NO_TAGS = memoryview(b"\0\0\0")
"""The end of a request: empty tagged fields of the partition, the topic and the request."""


class _CachedRequest(NamedTuple):
    """A decoded request, and its response without base offset, append time and log start."""

    request: ProduceRequest
    partition: TopicPartition
    response: Struct
    before: bytes
    after: bytes


class ProduceRequestCache:
    """The cached requests of one connection, as long as their headers are the same."""

    __slots__ = ("_body", "_broker", "_context", "_entries", "_records_at")

    def __init__(self, broker: BrokerContext, context: RequestContext, body: int) -> None:
        """`body` is the position at which the header of each of these requests ends."""
        self._broker = broker
        self._context = context
        self._body = body
        self._records_at = 0
        # Keyed by the bytes between the header and the length of the records.
        self._entries: dict[bytes, _CachedRequest] = {}

    def answer(
        self, frame: memoryview, correlation_id: int
    ) -> list[Chunk] | ProduceResponse | Deferred[object] | None:
        """See `RequestCache`."""
        at = self._records_at
        cached = self._entries.get(bytes(frame[self._body : at]))
        if cached is None:
            return None
        records = _records(frame, at)
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
        length = unsigned_varint(len(data.records) + 1)
        at = len(frame) - len(_NO_TAGS) - len(data.records) - len(length)
        if frame[at : at + len(length)] != memoryview(length) or _records(frame, at) is None:
            return
        if at != self._records_at or len(self._entries) >= CACHED_MAX:
            # Requests of this kind are cached from the next one on.
            self._entries.clear()
            self._records_at = at
            return
        name = topic_name(self._broker, self._context.api_version, topic)
        data.records = None
        partition = TopicPartition(name, data.index)
        self._entries[bytes(frame[self._body : at])] = self._entry_of(request, partition)

    def _entry_of(self, request: ProduceRequest, partition: TopicPartition) -> _CachedRequest:
        base_offset, append_time_ms, log_start = PLACEHOLDERS
        entry = AppendEntry(partition, memoryview(b""))
        entry.base_offset = base_offset
        entry.log_append_time_ms = append_time_ms
        entry.log_start_offset = log_start
        encoded = encode_bytes(self._to_response(request, entry), self._context.api_version)
        before, _, after = encoded.rpartition(NUMBERS.pack(*PLACEHOLDERS))
        # Size, correlation id, and a zero byte for the empty tagged fields.
        layout = Struct(f">iix{len(before)}sqqq{len(after)}s")
        return _CachedRequest(request, partition, layout, before, after)


def _records(frame: memoryview, at: int) -> memoryview | None:
    """The records whose length is at `at`, if they are the end of a one-partition request."""
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
