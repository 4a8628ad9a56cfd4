"""Which partitions' remote data is to go, and whether this broker is to do it: decisions only.

A deleted partition's removal is a row of events in the metadata topic, and nothing else remembers
it, so any broker can take it up wherever another has left it (KIP-405's RemotePartitionRemover):

    topic deleted --> MARKED --> STARTED --> every segment: DELETE_SEGMENT_STARTED, objects gone,
                                             DELETE_SEGMENT_FINISHED --> FINISHED

- The broker that told the first MARKED removes, so that in a healthy cluster each segment is
  deleted once. All brokers read the events in one order and agree on who was first.
- Where nothing has moved for a while, another broker takes over: it tells STARTED in its name.
- A leader may die after its topic was deleted and before it said so. Whoever notices, at two looks
  with a grace between them, marks the partition.
- Nothing goes without the record of the deletion, which the cluster's own metadata log holds. An
  event alone proves nothing, and neither does a topic id that the cluster does not know: it may
  not have heard of the topic yet.
- A copy that was on its way may tell of a segment after FINISHED. It is swept up, later than it
  could take to be uploaded.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from ...clients.topic_partition import TopicIdPartition
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_segment import RemotePartitionDeleteState
from ..tier_access import ClusterTopics

_STATE = RemotePartitionDeleteState


class RemovalStep(Enum):
    """What this broker is to do about a partition."""

    MARK = "tell that it is to go, and remove it"
    REMOVE = "remove it"
    SWEEP = "delete the segments that came after its end"


class Removal(NamedTuple):
    """A step that is due."""

    partition: TopicIdPartition
    step: RemovalStep


class Patience(NamedTuple):
    """How long, in seconds, things must stay as they are before something is done about them."""

    gone: float = 60.0
    """A deleted topic that nobody has marked."""
    takeover: float = 1800.0
    """A removal that is another broker's; a segment told of after the end of its partition."""


class _Signature(NamedTuple):
    state: RemotePartitionDeleteState | None
    remover_id: int
    segments: int
    unfinished: int


class _Seen(NamedTuple):
    signature: _Signature
    since: float


class PartitionRemovals:
    """What was seen at earlier looks, and what follows from it."""

    def __init__(self, broker_id: int, patience: Patience) -> None:
        self._broker_id = broker_id
        self._patience = patience
        self._seen: dict[TopicIdPartition, _Seen] = {}
        self._gone_since: dict[TopicIdPartition, float] = {}
        self.unproven: set[TopicIdPartition] = set()
        """Partitions that events call deleted while no record says so, at the last look."""

    def look(
        self, remote_logs: Iterable[RemoteLog], topics: ClusterTopics | None, now: float
    ) -> list[Removal]:
        """What is due, of partitions whose metadata is complete. `now` is in seconds of a clock
        that only moves forward. Where nobody knows the topics, nothing is."""
        due: list[Removal] = []
        seen: dict[TopicIdPartition, _Seen] = {}
        gone: dict[TopicIdPartition, float] = {}
        self.unproven = set()
        for remote in remote_logs:
            partition = remote.topic_id_partition
            step = None
            if topics is None or not topics.was_deleted(partition.topic_id):
                if remote.partition_delete_state is not None:
                    self.unproven.add(partition)
            elif remote.partition_delete_state is not None:
                seen[partition] = self._see(remote, now)
                step = self._next_step(remote, now - seen[partition].since)
            elif len(remote):
                gone[partition] = self._gone_since.get(partition, now)
                step = RemovalStep.MARK if now - gone[partition] >= self._patience.gone else None
            if step is not None:
                due.append(Removal(partition, step))
        self._seen, self._gone_since = seen, gone
        return due

    def _see(self, remote: RemoteLog, now: float) -> _Seen:
        signature = _Signature(
            remote.partition_delete_state,
            remote.remover_id,
            len(remote),
            len(remote.unfinished_segments()),
        )
        before = self._seen.get(remote.topic_id_partition)
        if before is not None and before.signature == signature:
            return before
        return _Seen(signature, now)

    def _next_step(self, remote: RemoteLog, unmoved_seconds: float) -> RemovalStep | None:
        is_mine = remote.remover_id == self._broker_id
        if remote.partition_delete_state is not _STATE.DELETE_PARTITION_FINISHED:
            return (
                RemovalStep.REMOVE
                if is_mine or unmoved_seconds >= self._patience.takeover
                else None
            )
        if not len(remote):
            return None
        # The broker that finished comes first; the others only if it does not come.
        patience = self._patience.takeover * (1 if is_mine else 2)
        return RemovalStep.SWEEP if unmoved_seconds >= patience else None
