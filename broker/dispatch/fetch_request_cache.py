"""A cache of Fetch requests that repeat except for the offset, and so need no decoding.

A consumer without a fetch session names its partitions in every request. If it reads a single
partition, its requests differ only in the fetch offset, and its responses, apart from the records,
only in three offsets and a length (docs/decisions/013).

Only the simple, frequent kind of request is cached: from a consumer, with one partition and no
session. Entries are valid until the cluster's metadata changes. Other requests are decoded, and
responses with errors, aborted transactions or another replica to read from are encoded.
"""

import asyncio
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, cast

from ...clients.protocol.api import APIS
from ...clients.protocol.codec import encode_bytes
from ...clients.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from ...clients.protocol.primitives import size_of, unsigned_varint
from ...clients.protocol.schema import Chunk, Message
from ...replication.partition.fetch_data import FetchParams, FetchPartition, FetchResults
from ..handlers.fetch import params_of, resolve, to_response
from ..request.context import BrokerContext, Deferred, RequestContext
from ..request.fetch_session import FINAL_EPOCH, NO_SESSION, FetchContext, requested_partitions
from .request_cache import NUMBERS, PLACEHOLDERS, SIZE, response_layout

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_CACHED_VERSION = 5
"""The first whose response has the log's start; kafkajs and Sarama use 11, librdkafka 16."""

CACHED_MAX = 64
"""The most requests that are cached per connection."""

CACHED_BYTES_MAX = 1024
"""A longer request is decoded every time: a rack may have 32,767 characters."""

_OFFSET = Struct(">q")


class _CachedRequest(NamedTuple):
    """A decoded request, and its response without the offsets and the records."""

    after: memoryview
    """The bytes after the fetch offset in the request."""
    metadata_offset: int
    """The offset of the cluster image that has the topic; another image may not have it."""
    fetch: FetchContext
    params: FetchParams
    partition: FetchPartition
    response: Struct
    before: bytes
    between: bytes
    """The bytes between the offsets and the length of the records."""
    end: bytes


class FetchRequestCache:
    """The cached requests of one connection, as long as their headers are the same."""

    __slots__ = ("_body", "_broker", "_context", "_entries", "_is_flexible", "_offset_at")

    def __init__(self, broker: BrokerContext, context: RequestContext, body: int) -> None:
        """`body` is the position at which the header of each of these requests ends."""
        self._broker = broker
        self._context = context
        self._body = body
        self._is_flexible = APIS[context.api_key].is_flexible(context.api_version)
        self._offset_at = 0
        # Keyed by the bytes between the header and the fetch offset.
        self._entries: dict[bytes, _CachedRequest] = {}

    def answer(
        self, frame: memoryview, correlation_id: int
    ) -> list[Chunk] | FetchResponse | Deferred[object] | None:
        """See `RequestCache`."""
        at = self._offset_at
        cached = self._entries.get(bytes(frame[self._body : at]))
        if cached is None or frame[at + _OFFSET.size :] != cached.after:
            return None
        broker, usual = self._broker, cached.partition
        if broker.controller.image.offset != cached.metadata_offset:
            return None
        (offset,) = _OFFSET.unpack_from(frame, at)
        partition = FetchPartition(
            usual.topic_id_partition, offset, usual.max_bytes, usual.current_leader_epoch
        )
        outcome = broker.replica_manager.leader_fetch.fetch(cached.params, [partition])
        if isinstance(outcome, asyncio.Future):

            def respond(results: FetchResults) -> list[Chunk] | FetchResponse:
                return self._respond(cached, correlation_id, results)

            # The dispatch sends an encoded response as it is.
            then = cast("Callable[[FetchResults], FetchResponse]", respond)
            return cast("Deferred[object]", Deferred(outcome, then))
        return self._respond(cached, correlation_id, outcome)

    def _respond(
        self, cached: _CachedRequest, correlation_id: int, results: FetchResults
    ) -> list[Chunk] | FetchResponse:
        (result,) = results
        if result.error_code or result.aborted_transactions or result.preferred_read_replica >= 0:
            return to_response(self._broker, self._context, cached.fetch, results)
        records = result.records or b""
        nbytes = size_of(records)
        self._broker.bytes_out.value += nbytes
        length = unsigned_varint(nbytes + 1) if self._is_flexible else SIZE.pack(nbytes)
        response, end = cached.response, cached.end
        before = response.pack(
            response.size - 4 + len(length) + nbytes + len(end),
            correlation_id,
            cached.before,
            result.high_watermark,
            result.last_stable_offset,
            result.log_start_offset,
            cached.between,
        )
        return [before + length, records, end] if nbytes else [before + length + end]

    def put(self, frame: memoryview, request: Message, response: Message | None) -> None:
        """See `RequestCache`."""
        assert isinstance(request, FetchRequest), "This cache holds Fetch requests only."
        if len(frame) - self._body > CACHED_BYTES_MAX:
            return
        if request.session_epoch != FINAL_EPOCH or request.session_id != NO_SESSION:
            return
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return
        params = params_of(self._broker, self._context, request)
        if params.is_from_follower or _is_refused(response):
            return
        fetch = FetchContext(requested_partitions(request), None, False)
        image = self._broker.controller.image
        partition = resolve(image, fetch.partitions[0], self._context.api_version)
        if not isinstance(partition, FetchPartition) or partition.last_fetched_epoch >= 0:
            return
        before, after = self._around_offset(request)
        at = self._body + len(before)
        if frame[self._body :] != memoryview(before + _OFFSET.pack(partition.fetch_offset) + after):
            # The request has unknown tagged fields.
            return
        if at != self._offset_at or len(self._entries) >= CACHED_MAX:
            # Requests of this kind are cached from the next one on.
            self._entries.clear()
            self._offset_at = at
            return
        around = self._around_records(fetch, params)
        common = (memoryview(after), image.offset, fetch, params, partition)
        self._entries[before] = _CachedRequest(*common, *around)

    def _around_offset(self, request: FetchRequest) -> tuple[bytes, bytes]:
        """The bytes before and after the only fetch offset, as we would encode the request."""
        requested = request.topics[0].partitions[0]
        offset, requested.fetch_offset = requested.fetch_offset, PLACEHOLDERS[0]
        encoded = encode_bytes(request, self._context.api_version)
        requested.fetch_offset = offset
        before, _, after = encoded.partition(_OFFSET.pack(PLACEHOLDERS[0]))
        return before, after

    def _around_records(
        self, fetch: FetchContext, params: FetchParams
    ) -> tuple[Struct, bytes, bytes, bytes]:
        """The layout of a response up to the length of its records, and its constant parts."""
        before, without = self._around_offsets(fetch, params, None)
        _, empty = self._around_offsets(fetch, params, b"")
        # The two differ only in the length: 0 and 1 in a flexible version, -1 and 0 in others.
        at = next(index for index, byte in enumerate(without) if byte != empty[index])
        after = at + (1 if self._is_flexible else SIZE.size)
        layout = response_layout(self._is_flexible, f"{len(before)}sqqq{at}s")
        return layout, before, empty[:at], empty[after:]

    def _around_offsets(
        self, fetch: FetchContext, params: FetchParams, records: bytes | None
    ) -> tuple[bytes, bytes]:
        high_watermark, last_stable_offset, log_start_offset = PLACEHOLDERS
        partition_data = PartitionData(
            partition_index=fetch.partitions[0].request.partition,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=log_start_offset,
            aborted_transactions=[] if params.is_committed else None,
            records=records,
        )
        response = to_response(self._broker, self._context, fetch, [partition_data])
        encoded = encode_bytes(response, self._context.api_version)
        before, _, after = encoded.rpartition(NUMBERS.pack(*PLACEHOLDERS))
        return before, after


def _is_refused(response: Message | None) -> bool:
    """Whether the partition was refused: then the next request must be decided again."""
    assert isinstance(response, FetchResponse), "A Fetch request has such a response."
    return any(
        partition.error_code for topic in response.responses for partition in topic.partitions
    )
