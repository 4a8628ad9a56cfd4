"""The follower's side of an incremental fetch session (KIP-227; Kafka's `FetchSessionHandler`).

    FULL --response with a session id--> INCREMENTAL --next epoch--> INCREMENTAL
      ^---- error, lost request or response, session closed by the leader ----'

A full request names every partition and asks for a new session. An incremental one names only those
whose ask is not the one that the leader holds, and those that it shall forget. An incremental
response leaves out the partitions with nothing new: their asks stay outstanding, so that a round
costs as much as there is news, not as there are partitions.

The leader's session notes the offsets of each response, and leaves a partition out until they
change. So if a response's offsets were not used here (it met no ask, or the log was truncated
first), and the partition is fetched on, a new session begins: nothing else makes the leader repeat
a high watermark. Kafka's followers wait for a newer one instead.

Partitions are identified by topic id and number. Nothing here does I/O.
"""

from collections.abc import Collection, Iterable
from enum import Enum
from typing import NamedTuple

from ...clients.errors import ErrorCode
from ...clients.kafka_uuid import Uuid
from ...clients.topic_partition import TopicIdPartition
from .followed_partitions import Asked
from .follower_asks import FetchAsk

INITIAL_EPOCH = 0
NO_SESSION = 0

_MAX_INT32 = 0x7FFFFFFF


class ReplicaId(NamedTuple):
    """A partition as Fetch names it from version 13 on."""

    topic_id: Uuid
    partition: int


class SessionRequest(NamedTuple):
    """What the next Fetch request says."""

    session_id: int
    session_epoch: int
    send: list[Asked]
    """The partitions that are new or changed, in the order in which records are preferred."""
    forget: list[ReplicaId]


class SessionReaction(Enum):
    """What a response means for the session."""

    ACCEPTED = "its partitions can be handled"
    AGAIN = "the next request is a full one, and can be sent at once"
    REFUSED = "a full request was refused: wait before the next one"


def epoch_after(epoch: int) -> int:
    """The epoch of the next request of a session; after the largest one it is 1."""
    return 1 if epoch == _MAX_INT32 else epoch + 1


def replica_id_of(name: TopicIdPartition) -> ReplicaId:
    """The partition without the name of its topic."""
    return ReplicaId(name.topic_id, name.partition)


class ReplicaFetchSession:
    """See the top of this file."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        # The outstanding asks, whether sent or not.
        self._asks: dict[ReplicaId, Asked] = {}
        # The partitions of the leader's session, with the ask that it holds for each.
        self._held: dict[ReplicaId, FetchAsk] = {}
        # The partitions that may differ in the two, in order.
        self._changed: dict[ReplicaId, None] = {}
        # The partitions that did not use the offsets that the leader's session has noted.
        self._unused: set[ReplicaId] = set()

    @property
    def outstanding(self) -> Collection[Asked]:
        """The asks that wait for a response."""
        return self._asks.values()

    def add(self, part: Asked) -> None:
        """Send this ask with the next request; it replaces an earlier one of the partition."""
        key = replica_id_of(part.partition.topic_id_partition)
        # At the end: in a full request the order is that of `FollowedPartitions.asks`.
        self._asks.pop(key, None)
        self._asks[key] = part
        self._changed.pop(key, None)
        self._changed[key] = None

    def drop(self, names: Iterable[TopicIdPartition]) -> None:
        """Forget the asks of partitions that are no longer followed; late responses match none."""
        for name in names:
            self._pop(replica_id_of(name))

    def take(self, key: ReplicaId) -> Asked | None:
        """The outstanding ask that a response belongs to; it is outstanding no longer."""
        part = self._pop(key)
        if part is None:
            self.on_unused(key)
        return part

    def _pop(self, key: ReplicaId) -> Asked | None:
        part = self._asks.pop(key, None)
        if part is not None:
            self._changed[key] = None
        return part

    def on_unused(self, key: ReplicaId) -> None:
        """The log does not have the offsets that the leader's session has noted; see the top."""
        self._unused.add(key)
        self._changed[key] = None

    def next_request(self) -> SessionRequest:
        """The next request, of which exactly one may be in flight."""
        send: list[Asked] = []
        forget: list[ReplicaId] = []
        if any(key in self._asks for key in self._unused):
            self._restart(self._id)
        self._unused = set()
        if self._epoch == INITIAL_EPOCH:
            send += self._asks.values()
            self._held = {key: _fetch_ask(part) for key, part in self._asks.items()}
        else:
            for key in self._changed:
                self._compare(key, send, forget)
        self._changed = {}
        return SessionRequest(self._id, self._epoch, send, forget)

    def _compare(self, key: ReplicaId, send: list[Asked], forget: list[ReplicaId]) -> None:
        part, held = self._asks.get(key), self._held.get(key)
        if part is None:
            if held is not None:
                del self._held[key]
                forget.append(key)
            return
        ask = _fetch_ask(part)
        if held is None or _values(held) != _values(ask):
            send.append(part)
        self._held[key] = ask

    def on_response(
        self, error: ErrorCode, session_id: int, partitions: Collection[ReplicaId]
    ) -> tuple[SessionReaction, str]:
        """Take note of a response; the second value says what is wrong with it, or is empty.

        `partitions` are those of the response, which the caller hands to `take` if it is accepted.
        """
        is_full = self._epoch == INITIAL_EPOCH
        problem = self._problem(error, partitions, is_full)
        if problem:
            # The request closes a session that the leader may still have.
            is_gone = error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            self._restart(NO_SESSION if is_gone else self._id)
            return SessionReaction.REFUSED if is_full else SessionReaction.AGAIN, problem
        if session_id == NO_SESSION:
            # The leader has no room for a session, or has closed it: it has nothing left of it.
            self._restart(NO_SESSION)
        else:
            self._id = session_id
            self._epoch = epoch_after(self._epoch)
        return SessionReaction.ACCEPTED, ""

    def _problem(self, error: ErrorCode, partitions: Collection[ReplicaId], is_full: bool) -> str:
        if error is not ErrorCode.NONE:
            return f"The leader returned {error.name}."
        strangers = sum(key not in self._held for key in partitions)
        if strangers:
            return f"The response has {strangers} partition(s) that were not requested."
        if is_full and len(partitions) < len(self._held):
            return (
                f"The response to a full request has {len(partitions)} partition(s) of"
                f" {len(self._held)}."
            )
        return ""

    def _restart(self, session_id: int) -> None:
        self._id = session_id
        self._epoch = INITIAL_EPOCH
        self._held = {}

    def lose(self) -> list[Asked]:
        """Handle a request without a response: returns all asks, which are outstanding no longer.

        The next request is a full one, which closes the session if the leader still has it.
        """
        lost = list(self._asks.values())
        self._asks = {}
        self._changed = {}
        self._unused = set()
        self._restart(self._id)
        return lost


def _fetch_ask(part: Asked) -> FetchAsk:
    assert isinstance(part.ask, FetchAsk), "only records are fetched in a session"
    return part.ask


def _values(ask: FetchAsk) -> tuple[int, int, int, int]:
    return ask.offset, ask.current_leader_epoch, ask.last_fetched_epoch, ask.log_start_offset
