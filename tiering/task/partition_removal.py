"""Decides which partitions' remote data to remove, and whether this broker does it.

A deleted partition's removal is recorded only as a series of events in the metadata topic, so any
broker can resume it where another one left off (KIP-405's RemotePartitionRemover):

    topic deleted --> MARKED --> STARTED --> every segment: DELETE_SEGMENT_STARTED, objects gone,
                                             DELETE_SEGMENT_FINISHED
                             --> a wait for uploads that arrive late, and once more --> FINISHED

- The broker that published the first MARKED does the removal, so that in a healthy cluster each
  segment is deleted once. All brokers read the events in one order and agree on who was first.
- If there is no progress for a while, another broker takes over by publishing its own STARTED.
- A leader may die after its topic was deleted and before it published MARKED. Any broker that sees
  this in two looks, a grace period apart, marks the partition.
- Nothing is deleted unless the cluster's metadata log has the topic's deletion. An event alone
  proves nothing, and neither does an unknown topic id, however long it stays unknown: this broker
  may not have learned of the topic yet. `ClusterTopics.was_deleted` decides between the two.
- A copy in progress may publish a segment after FINISHED. That segment is deleted too, but only
  after more time than an upload can take.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from ...clients.topic_partition import TopicIdPartition
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_segment import RemotePartitionDeleteState
from ..tier_access import ClusterTopics

_STATE = RemotePartitionDeleteState


LATE_UPLOAD_SECONDS = 60.0
"""After this long, the last object of a copy that was given up should have arrived: an upload
thread cannot be stopped, and a store may do later what it has answered with a time-out. The
metadata does not show it: a leader may have deleted and forgotten such a copy before the
removal."""


class RemovalStep(Enum):
    """What this broker must do about a partition."""

    MARK = "mark it as deleted, and remove it"
    REMOVE = "remove it"
    SWEEP = "delete the segments that were copied after its removal"


class Removal(NamedTuple):
    """A step that is due."""

    partition: TopicIdPartition
    step: RemovalStep


class Patience(NamedTuple):
    """How long, in seconds, a state must stay unchanged before the remover acts on it."""

    gone: float = 60.0
    """For a deleted topic that no broker has marked."""
    takeover: float = 1800.0
    """For another broker's removal, and for a segment published after its partition's FINISHED."""


class _Signature(NamedTuple):
    state: RemotePartitionDeleteState | None
    remover_id: int
    segments: int
    unfinished: int


class _Seen(NamedTuple):
    signature: _Signature
    since: float


class PartitionRemovals:
    """Decides the next removal steps from this look and earlier ones."""

    def __init__(self, broker_id: int, patience: Patience) -> None:
        self._broker_id = broker_id
        self._patience = patience
        self._seen: dict[TopicIdPartition, _Seen] = {}
        self._gone_since: dict[TopicIdPartition, float] = {}
        self.unproven: set[TopicIdPartition] = set()
        """Partitions that events mark as deleted, but not the metadata log, at the last look."""

    def look(
        self, remote_logs: Iterable[RemoteLog], topics: ClusterTopics | None, now: float
    ) -> list[Removal]:
        """The removals that are due; empty while `topics` is None.

        The metadata of `remote_logs` must be complete. `now` is in seconds of a monotonic clock."""
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
            patience = self._patience.takeover + (0.0 if len(remote) else LATE_UPLOAD_SECONDS)
            return RemovalStep.REMOVE if is_mine or unmoved_seconds >= patience else None
        if not len(remote):
            return None
        # The broker that finished goes first; the others only if it does not act.
        patience = self._patience.takeover * (1 if is_mine else 2)
        return RemovalStep.SWEEP if unmoved_seconds >= patience else None
