"""Decides which remote segments to delete, and the new log start offset (KIP-405, KIP-852).

The decision depends only on the state of both tiers; `tiering/task/expiration_task.py` carries it
out. The reasons to delete a segment are

    LOG_START     it ends below the log start offset, moved by DeleteRecords or an earlier run
    TIME          its youngest record is older than retention.ms
    SIZE          the log is larger than retention.bytes without it
    DEAD_LINEAGE  all its epochs are older than the log's first: another leader's lost history
    UNFINISHED    its copy was abandoned, or its deletion has begun but is not finished

The time and size rules start at the oldest segment and stop at the first one kept, so that no gap
arises; a record with a future timestamp keeps its segment and all later ones. Both apply only to
segments of this log's epoch history: segments of a dead lineage neither count nor block others, and
segments with newer epochs than this replica's are left to another leader. These are the rules of
Kafka's `RLMExpirationTask`. Further rules, because a premature deletion cannot be undone:

- The log's size includes only what readers can reach. Covered segments, segments below the log
  start and segments whose deletion has begun do not count (Kafka counts them, and so deletes other
  segments). A local segment counts unless the tier has all its records, even those above the copied
  offset.
- A lineage is dead only if the epoch history reaches back to the log start offset. A history that
  begins later is incomplete, as after damage to its checkpoint, and proves nothing.
- A dead or half-deleted segment, which one source (a checkpoint or an event) shows to be unneeded,
  is deleted only if a second source confirms it: each of its offsets is below the log start, in the
  local log, or in another segment of the history. Otherwise the segment is withheld. An unfinished
  copy is withheld until finished segments have its offsets.
- The new log start offset is at most the high watermark; segments that end above it are kept.
"""

from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from ...clients.kafka_uuid import Uuid
from .log_gaps import first_gap
from .remote_lineage import EpochHistory, Lineage
from .remote_log import RemoteLog
from .remote_segment import RemoteLogSegmentMetadata, RemoteLogSegmentState

_STATE = RemoteLogSegmentState


class DeleteReason(Enum):
    """Why a remote segment is deleted; the value completes "deleted because"."""

    LOG_START = "it lies below the log start offset"
    TIME = "it is older than retention.ms"
    SIZE = "the log is larger than retention.bytes"
    DEAD_LINEAGE = "its leader epochs are older than the log's first"
    UNFINISHED = "its copy or its deletion was not finished"


class RetentionLimits(NamedTuple):
    """A topic's retention limits; negative means no limit."""

    retention_ms: int
    retention_bytes: int


class LogFacts(NamedTuple):
    """The part of the log's state on which the decision depends."""

    history: EpochHistory
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    local_only_bytes: int
    """Bytes of local segments that are not in the tier; see `local_only_bytes`."""
    local_log_start_offset: int = 0
    """The local log start offset."""


class Exempt(NamedTuple):
    """The segments that must not be deleted now."""

    in_hand: Collection[Uuid] = ()
    """Segments that this broker is currently copying or deleting."""
    copy_cleans_up: bool = False
    """Whether this broker copies the log's segments, and so removes unfinished copies itself."""


_NOTHING_EXEMPT = Exempt()


class ExpiredSegment(NamedTuple):
    """A remote segment to be deleted, and why."""

    segment: RemoteLogSegmentMetadata
    reason: DeleteReason


class RetentionDecision(NamedTuple):
    """First move the log start to `log_start_offset`, then delete the segments in this order."""

    log_start_offset: int
    expired: list[ExpiredSegment]
    withheld: tuple[ExpiredSegment, ...] = ()
    """Segments kept because they may be the last copy of offsets that the log still has."""


def local_only_bytes(
    remote: RemoteLog,
    history: EpochHistory,
    segments: Iterable[tuple[int, int, int]],
    copied_offset: int = -1,
) -> int:
    """The total size of the local segments of which the tier does not have all records.

    `segments` has (base offset, offset after the end, size) of each local segment. The tier has
    everything up to `copied_offset`.
    """
    return sum(
        size
        for base_offset, end_offset, size in segments
        if end_offset > copied_offset + 1
        and first_gap(remote, history, base_offset, end_offset) is not None
    )


class LineageSize:
    """The bytes in the tier that readers of the log can reach (`remoteLogSize`, KIP-852).

    The sum is updated: each call processes only the segments that changed since the last call. It
    is recomputed if the epoch history has changed, other than by a later start of its first epoch.
    """

    def __init__(self, remote: RemoteLog) -> None:
        self._remote = remote
        self._history: list[tuple[int, int]] | None = None
        self._counted: dict[Uuid, int] = {}
        self._total = 0

    def of(self, facts: LogFacts) -> int:
        """The current size, for a log that has only grown since the last call."""
        lineage = Lineage(facts.history)
        history = [(lineage.epochs[0][0], -1), *lineage.epochs[1:]]
        touched = self._remote.take_touched(self)
        if touched is None or history != self._history:
            touched = {segment.id for segment in self._remote.segments()} | self._counted.keys()
            self._history = history
        for segment_id in touched:
            self._total -= self._counted.pop(segment_id, 0)
            segment = self._remote.segment(segment_id)
            if segment is not None and self._is_reached(segment, lineage, facts.log_end_offset):
                self._counted[segment_id] = segment.segment_size_bytes
                self._total += segment.segment_size_bytes
        return self._total - self._below(facts, lineage)

    def _is_reached(
        self, segment: RemoteLogSegmentMetadata, lineage: Lineage, log_end_offset: int
    ) -> bool:
        return (
            segment.state is _STATE.COPY_SEGMENT_FINISHED
            and self._remote.serves(segment)
            and lineage.holds(segment, log_end_offset)
        )

    def _below(self, facts: LogFacts, lineage: Lineage) -> int:
        """The counted bytes below the log start, which are unreadable and about to be deleted."""
        below = 0
        for segment in _of_history(self._remote, lineage.epochs):
            if segment.start_offset >= facts.log_start_offset:
                break
            if segment.end_offset < facts.log_start_offset:
                below += self._counted.get(segment.id, 0)
        return below


def decide_retention(
    remote: RemoteLog,
    facts: LogFacts,
    limits: RetentionLimits,
    now_ms: int,
    exempt: Exempt = _NOTHING_EXEMPT,
    size: LineageSize | None = None,
) -> RetentionDecision:
    """Decide as in the module docstring. For repeated calls, pass a `size` to be reused."""
    in_doubt = _unfinished_copies(remote, facts, exempt)
    if not facts.history:
        # Without a history, only segments below the log start are certain to be unneeded.
        below = [each for each in in_doubt if each.segment.end_offset < facts.log_start_offset]
        return RetentionDecision(facts.log_start_offset, below)
    in_doubt += _dead_lineage(remote, facts, exempt)
    withheld = tuple(each for each in in_doubt if is_last_copy(remote, facts, each.segment))
    expired = [each for each in in_doubt if each not in withheld]
    finished = [
        each
        for each in _expired_by_rules(remote, facts, limits, now_ms, size or LineageSize(remote))
        if each.segment.id not in exempt.in_hand
    ]
    log_start_offset = max(
        facts.log_start_offset,
        *(
            min(each.segment.end_offset + 1, facts.high_watermark)
            for each in finished
            if each.reason in (DeleteReason.TIME, DeleteReason.SIZE)
        ),
        0,
    )
    finished = [each for each in finished if each.segment.end_offset < log_start_offset]
    of_doubt = [each for each in expired if each.reason is DeleteReason.DEAD_LINEAGE]
    begun = [each for each in expired if each.reason is DeleteReason.UNFINISHED]
    return RetentionDecision(log_start_offset, [*begun, *finished, *of_doubt], withheld)


def is_last_copy(remote: RemoteLog, facts: LogFacts, segment: RemoteLogSegmentMetadata) -> bool:
    """Whether deleting this segment may lose offsets that the log has.

    For a dead lineage or a deletion that has begun, offsets in the local log are safe. For an
    unfinished copy they are not, because the local records may have become unreadable since. That
    copy is needed until another one is finished, for which each byte is read and checked.
    """
    begin = max(segment.start_offset, facts.log_start_offset)
    end = min(segment.end_offset + 1, facts.log_end_offset)
    if segment.state is not _STATE.COPY_SEGMENT_STARTED:
        end = min(end, facts.local_log_start_offset)
    return first_gap(remote, facts.history, begin, end) is not None


def _unfinished_copies(remote: RemoteLog, facts: LogFacts, exempt: Exempt) -> list[ExpiredSegment]:
    return [
        ExpiredSegment(segment, DeleteReason.UNFINISHED)
        for segment in remote.unfinished_segments()
        if segment.id not in exempt.in_hand
        and not (exempt.copy_cleans_up and segment.end_offset >= facts.log_start_offset)
    ]


def _expired_by_rules(
    remote: RemoteLog,
    facts: LogFacts,
    limits: RetentionLimits,
    now_ms: int,
    size: LineageSize,
) -> Iterator[ExpiredSegment]:
    """Finished segments to delete because of log start, time or size, oldest first."""
    lineage = Lineage(facts.history)
    first_epoch = lineage.epochs[0][0]
    excess = _excess_bytes(remote, facts, limits, size)
    oldest_ms = now_ms - limits.retention_ms if limits.retention_ms >= 0 else None
    for segment in _of_history(remote, lineage.epochs):
        if segment.state is not _STATE.COPY_SEGMENT_FINISHED:
            continue
        if (
            segment.end_offset < facts.log_start_offset
            and segment.segment_leader_epochs[-1][0] <= first_epoch
        ):
            # The history begins at the log start offset and may have lost the segment's epochs.
            yield ExpiredSegment(segment, DeleteReason.LOG_START)
            continue
        if not lineage.holds(segment, facts.log_end_offset):
            continue
        if not remote.serves(segment):
            # Other segments cover it. The caller deletes it only once it is below the log start.
            yield ExpiredSegment(segment, DeleteReason.LOG_START)
            continue
        if oldest_ms is not None and segment.max_timestamp_ms < oldest_ms:
            excess -= segment.segment_size_bytes
            yield ExpiredSegment(segment, DeleteReason.TIME)
        elif segment.segment_size_bytes <= excess:
            excess -= segment.segment_size_bytes
            yield ExpiredSegment(segment, DeleteReason.SIZE)
        else:
            return


def _excess_bytes(
    remote: RemoteLog, facts: LogFacts, limits: RetentionLimits, size: LineageSize
) -> int:
    """By how many bytes the log exceeds retention.bytes; -1 if it does not or has no limit."""
    limit = limits.retention_bytes
    # The size of the finished segments of all lineages is a cheap upper bound (KIP-852).
    if limit < 0 or remote.finished_bytes + facts.local_only_bytes <= limit:
        return -1
    excess = size.of(facts) + facts.local_only_bytes - limit
    return excess if excess > 0 else -1


def _dead_lineage(remote: RemoteLog, facts: LogFacts, exempt: Exempt) -> list[ExpiredSegment]:
    first_epoch, first_offset = facts.history[0]
    if first_offset > facts.log_start_offset:
        return []
    dead: dict[Uuid, RemoteLogSegmentMetadata] = {}
    for epoch in remote.epochs():
        if epoch < first_epoch:
            for segment in remote.segments_for_epoch(epoch):
                if segment.segment_leader_epochs[-1][0] < first_epoch:
                    dead[segment.id] = segment
    return [
        ExpiredSegment(segment, DeleteReason.DEAD_LINEAGE)
        for segment in dead.values()
        if segment.state is _STATE.COPY_SEGMENT_FINISHED and segment.id not in exempt.in_hand
    ]


def _of_history(remote: RemoteLog, history: EpochHistory) -> Iterator[RemoteLogSegmentMetadata]:
    """The segments of the history's epochs, each once, ordered by epoch and start offset."""
    seen: set[Uuid] = set()
    for epoch, _ in history:
        for segment in remote.segments_for_epoch(epoch):
            if segment.id not in seen:
                seen.add(segment.id)
                yield segment
