"""Incremental fetch sessions (KIP-227; Kafka's `FetchSession`).

Without a session, a consumer of a thousand partitions repeats them in every request, and every
response has them all. With a session both sides remember the partitions: a request names only those
that changed since the last one, and a response leaves out the partitions with nothing new.

The rules:

- Epoch 0 requests a new session, epoch -1 no session; both end the session that the request names.
  Any other epoch must be the next one, so that a lost request or response is always noticed. A
  wrong id gets FETCH_SESSION_ID_NOT_FOUND, a wrong epoch INVALID_FETCH_SESSION_EPOCH. A session
  uses names or topic ids; a mixture gets FETCH_SESSION_TOPIC_ID_ERROR.
- A session may begin without partitions; it ends with the first request that leaves it without any.
- A partition is in the response if it has records, an error, a diverging epoch or a preferred read
  replica, or if its high watermark or log start offset changed. A partition that an incremental
  response returns with records moves to the end of its session, so that the other partitions come
  first in the next response.
- `max.incremental.fetch.session.cache.slots` limits the sessions. At the limit, a session unused
  for two minutes is evicted; otherwise a follower's session evicts a consumer's, and a larger
  session evicts a smaller one that is older than two minutes. If there is no room, the session id
  in the response is 0, and the client keeps sending full requests.
- Unlike in Kafka, the partitions of all sessions together are limited too (`SessionSizes`): a
  session lasts while its client keeps still, and has as many partitions as the client likes. For
  partitions, sessions that are unused for two minutes make room, and consumers' for followers'. A
  session that grows beyond the limit ends.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid
from ...clients.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData
from ...clients.protocol.primitives import size_of
from ...clients.protocol.schema import Chunk

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0
EVICTION_MS = 120_000

_MAX_INT32 = 0x7FFFFFFF

PARTITIONS_MAX = 200_000
"""Partitions in all sessions; each takes some 400 bytes."""

PARTITIONS_AT_ONCE = 256
"""A Fetch of more partitions waits for its turn, and is served in steps: one takes 40 µs."""

PARTITIONS_OF_ONE_MAX = 50_000
"""Partitions in one session, all of which each of its requests goes through."""


def next_epoch(epoch: int) -> int:
    """The epoch after `epoch`; after the largest one it is 1, as 0 and -1 are special."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _MAX_INT32 else epoch + 1


class PartitionKey(NamedTuple):
    """A partition as the request names it: by topic id from version 13 on, else by name."""

    topic_id: Uuid
    topic: str
    partition: int


class SessionPartition:
    """A client's fetch of one partition, and the offsets of the last response."""

    __slots__ = ("high_watermark", "log_start_offset", "request", "topic", "topic_id")

    def __init__(self, topic_id: Uuid, topic: str, request: FetchPartition) -> None:
        self.topic_id = topic_id
        self.topic = topic
        self.request = request
        self.high_watermark = -1
        self.log_start_offset: int = -1

    @property
    def key(self) -> PartitionKey:
        return PartitionKey(self.topic_id, self.topic, self.request.partition)

    def note(self, answer: PartitionData) -> bool:
        """Remember the offsets of a response. True if it has anything new for the client."""
        has_diverged = answer.diverging_epoch.end_offset >= 0
        is_new = answer.error_code != 0 or has_diverged
        is_new = is_new or _size(answer.records) > 0 or answer.preferred_read_replica >= 0
        if answer.high_watermark != self.high_watermark:
            self.high_watermark = answer.high_watermark
            is_new = True
        if answer.log_start_offset != self.log_start_offset:
            self.log_start_offset = answer.log_start_offset
            is_new = True
        if answer.error_code or has_diverged:
            # Its offsets are not used (a follower truncates first, KAFKA-14704), so the first
            # response without it is always new. Kafka does so for errors only.
            self.high_watermark = -1
        return is_new


def _size(records: Chunk | None) -> int:
    return 0 if records is None else size_of(records)


class FetchSession:
    """A session: the partitions of one client, in the order in which they are served."""

    __slots__ = (
        "created_ms",
        "epoch",
        "is_follower",
        "last_used_ms",
        "partitions",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, now_ms: int, is_follower: bool, topic_ids: bool) -> None:
        self.session_id = session_id
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.is_follower = is_follower
        self.uses_topic_ids = topic_ids
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.partitions: OrderedDict[PartitionKey, SessionPartition] = OrderedDict()

    def update(self, request: FetchRequest) -> None:
        """Apply the partitions that an incremental request adds, changes and forgets."""
        for each in requested_partitions(request):
            existing = self.partitions.setdefault(each.key, each)
            existing.request = each.request
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                self.partitions.pop(PartitionKey(topic.topic_id, topic.topic, partition), None)

    def note_all(self, answered: Iterable[tuple[SessionPartition, PartitionData]]) -> None:
        """Remember the offsets of a full response; the order of the partitions stays."""
        for partition, answer in answered:
            partition.note(answer)

    def results_to_send(
        self, answered: Iterable[tuple[SessionPartition, PartitionData]]
    ) -> list[tuple[SessionPartition, PartitionData]]:
        """The results of an incremental response. Partitions with records move to the end."""
        shown: list[tuple[SessionPartition, PartitionData]] = []
        for each in answered:
            partition, answer = each
            if partition.note(answer):
                shown.append(each)
                if _size(answer.records) and (key := partition.key) in self.partitions:
                    self.partitions.move_to_end(key)
        return shown


def requested_partitions(request: FetchRequest) -> list[SessionPartition]:
    """The partitions of a request, in the order of the request."""
    return [
        SessionPartition(topic.topic_id, topic.topic, partition)
        for topic in request.topics
        for partition in topic.partitions
    ]


class FetchContext(NamedTuple):
    """What one request fetches, with or without a session."""

    partitions: Sequence[SessionPartition]
    session: FetchSession | None
    is_incremental: bool


class SessionSizes(NamedTuple):
    """The most partitions of all sessions together, and of one."""

    of_all: int = PARTITIONS_MAX
    of_one: int = PARTITIONS_OF_ONE_MAX


_SIZES = SessionSizes()


class FetchSessionCache:
    """All sessions of a broker, the least recently used first."""

    def __init__(self, slots: int, random: Random, sizes: SessionSizes = _SIZES) -> None:
        self._slots = slots
        self._random = random
        self._sizes = sizes
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._held = 0
        """Partitions in all of them."""
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def size_of(self, session_id: int) -> int:
        """How many partitions a session has; 0 if there is no such session."""
        session = self._sessions.get(session_id)
        return 0 if session is None else len(session.partitions)

    def is_of_follower(self, session_id: int) -> bool:
        """Whether there is such a session, and it is a follower's."""
        session = self._sessions.get(session_id)
        return session is not None and session.is_follower

    def partitions_of(self, session_id: int) -> list[SessionPartition]:
        """The partitions of a session; none if there is no such session."""
        session = self._sessions.get(session_id)
        return [] if session is None else list(session.partitions.values())

    def begin(
        self, request: FetchRequest, is_follower: bool, now_ms: int, *, topic_ids: bool = False
    ) -> FetchContext:
        """What `request` fetches. Raises KafkaError if it breaks the rules of its session.

        `topic_ids`: whether its version names topics by their ids.
        """
        epoch = request.session_epoch
        if epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._resume(request, topic_ids, now_ms)
        self._end(request.session_id)
        partitions = requested_partitions(request)
        if epoch == FINAL_EPOCH:
            return FetchContext(partitions, None, False)
        session = self._create(is_follower, topic_ids, len(partitions), now_ms)
        if session is not None:
            session.partitions.update((partition.key, partition) for partition in partitions)
            self._held += len(session.partitions)
        return FetchContext(partitions, session, False)

    def _resume(self, request: FetchRequest, topic_ids: bool, now_ms: int) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if topic_ids != session.uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if request.topics or request.forgotten_topics_data:
            self._update(session, request, now_ms)
        if not session.partitions:
            self._end(session.session_id)
            return FetchContext((), None, False)
        session.epoch = next_epoch(session.epoch)
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        return FetchContext(list(session.partitions.values()), session, True)

    def _update(self, session: FetchSession, request: FetchRequest, now_ms: int) -> None:
        self._held -= len(session.partitions)
        session.update(request)
        # Without this session, which must not make room for itself.
        del self._sessions[session.session_id]
        if not self._have_room_for(len(session.partitions), session.is_follower, now_ms):
            self.evictions += 1
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self._sessions[session.session_id] = session
        self._held += len(session.partitions)

    def _create(
        self, is_follower: bool, topic_ids: bool, size: int, now_ms: int
    ) -> FetchSession | None:
        if not self._have_room_for(size, is_follower, now_ms):
            return None
        if len(self._sessions) >= self._slots and not self._make_room(is_follower, size, now_ms):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random.randint(1, _MAX_INT32)
        session = FetchSession(session_id, now_ms, is_follower, topic_ids)
        self._sessions[session_id] = session
        return session

    def _have_room_for(self, size: int, is_follower: bool, now_ms: int) -> bool:
        """Whether a session may have so many partitions; others may have to make room."""
        if size > min(self._sizes):
            return False
        limit = self._sizes.of_all
        while self._held + size > limit:
            stale = next(iter(self._sessions.values()))
            if now_ms - stale.last_used_ms > EVICTION_MS:
                self._evict(stale)
                continue
            consumers = [session for session in self._sessions.values() if not session.is_follower]
            displaced = sum(len(session.partitions) for session in consumers)
            # Without consumers to displace, or if even that would not make room.
            if not (is_follower and consumers and self._held - displaced + size <= limit):
                return False
            self._evict(max(consumers, key=lambda each: len(each.partitions)))
        return True

    def _make_room(self, is_follower: bool, size: int, now_ms: int) -> bool:
        if not self._sessions:
            return False
        stale = next(iter(self._sessions.values()))
        if now_ms - stale.last_used_ms > EVICTION_MS:
            return self._evict(stale)
        worst: FetchSession | None = None
        for session in self._sessions.values():
            settled = now_ms - session.created_ms > EVICTION_MS
            if not (settled or (is_follower and not session.is_follower)):
                continue
            if worst is None or _eviction_key(session) < _eviction_key(worst):
                worst = session
        if worst is None or (is_follower, size, 0) < _eviction_key(worst):
            return False
        return self._evict(worst)

    def _evict(self, session: FetchSession) -> bool:
        self._end(session.session_id)
        self.evictions += 1
        return True

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._held -= len(session.partitions)


def _eviction_key(session: FetchSession) -> tuple[bool, int, int]:
    """The sort key for eviction, lowest first (`FetchSession.EvictableKey`)."""
    return session.is_follower, len(session.partitions), session.session_id
