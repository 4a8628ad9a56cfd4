"""Which remote segments may go, why, and where the log begins without them (KIP-405, KIP-852).

A pure decision over both tiers; `tiering/task/expiration_task.py` acts on it. A segment goes
because

    LOG_START     it ends below the log start offset: DeleteRecords, or an earlier run, moved that
    TIME          its youngest record is older than retention.ms
    SIZE          the log is larger than retention.bytes without it
    DEAD_LINEAGE  all its epochs are older than the log's first: another leader's lost history
    UNFINISHED    its copy was given up, or its deletion has begun and not ended

Time and size go from the oldest segment on and stop at the first that stays, so that no hole comes
to be; a record from the future keeps its segment and all that follow. Both speak only of segments
that belong to this log's history: those of a dead branch neither count nor hold anything up, and
one whose epochs are newer than ours is another leader's business. These are the rules of Kafka's
`RLMExpirationTask`. Kept beyond it, since deleting too early cannot be made good:

- the log's size is what readers can reach: a copy that others cover counts for nothing, neither
  does one below the log start or one whose deletion has begun (Kafka counts these, and deletes
  others for them), and a local segment counts unless the tier has each of its records, whatever
  offset copying believes to have reached;
- a lineage is dead only if the history reaches back to the log start offset. One that begins later
  has been lost, as with a damaged checkpoint, and proves nothing;
- what one witness calls dead or half deleted (a checkpoint, an event) goes only if another one says
  that nothing is lost with it: each of its offsets lies below the log start, in the local log, or
  in another segment of the history. Otherwise it is withheld, and so is a copy that began and did
  not end until finished ones have its offsets;
- the new log start offset is at most the high watermark, and what does not end below it stays.
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
    """Why a remote segment goes; its value completes "deleted because"."""

    LOG_START = "it lies below the log start offset"
    TIME = "it is older than retention.ms"
    SIZE = "the log is larger than retention.bytes"
    DEAD_LINEAGE = "its leader epochs are older than the log's first"
    UNFINISHED = "its copy or its deletion was not finished"


class RetentionLimits(NamedTuple):
    """A topic's limits; negative is none."""

    retention_ms: int
    retention_bytes: int


class LogFacts(NamedTuple):
    """What the decision needs to know of the log."""

    history: EpochHistory
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    local_only_bytes: int
    """Bytes of local segments that are not in the tier; see `local_only_bytes`."""
    local_log_start_offset: int = 0
    """Where its local part begins."""


class Exempt(NamedTuple):
    """What must not be touched now."""

    in_hand: Collection[Uuid] = ()
    """Segments that this broker is copying or deleting at this moment."""
    copy_cleans_up: bool = False
    """Whether copying goes on here, and removes what copies at its front left unfinished."""


_NOTHING_EXEMPT = Exempt()


class ExpiredSegment(NamedTuple):
    """A remote segment that is to go."""

    segment: RemoteLogSegmentMetadata
    reason: DeleteReason


class RetentionDecision(NamedTuple):
    """The log is to begin at `log_start_offset` first; then the segments may go, in this order."""

    log_start_offset: int
    expired: list[ExpiredSegment]
    withheld: tuple[ExpiredSegment, ...] = ()
    """What would go, were it not the last that is left of offsets which the log still has."""


def local_only_bytes(
    remote: RemoteLog,
    history: EpochHistory,
    segments: Iterable[tuple[int, int, int]],
    copied_offset: int = -1,
) -> int:
    """The bytes of those (base offset, offset after the end, size) that the tier does not have.

    It is known to have everything up to `copied_offset`.
    """
    return sum(
        size
        for base_offset, end_offset, size in segments
        if end_offset > copied_offset + 1
        and first_gap(remote, history, base_offset, end_offset) is not None
    )


class LineageSize:
    """The bytes in the tier that readers of the log can reach (`remoteLogSize`, KIP-852).

    A running sum: each call looks at what has changed since the last. Everything is looked at when
    the history is another one; that its first epoch begins later now does not count as such.
    """

    def __init__(self, remote: RemoteLog) -> None:
        self._remote = remote
        self._history: list[tuple[int, int]] | None = None
        self._counted: dict[Uuid, int] = {}
        self._total = 0

    def of(self, facts: LogFacts) -> int:
        """The size now. For a log that has only grown since the last call."""
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
        """What lies below the log start: nobody can reach it, and it is about to be deleted."""
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
    """See the top of this file. `size` is that of `remote`, for who asks again and again."""
    in_doubt = _unfinished(remote, facts, exempt)
    if not facts.history:
        # An empty log: nothing is known but that what lies below its start is nobody's.
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
    """Whether the log has offsets that may be nowhere without this segment.

    What the local log claims to have counts for a deletion that has begun, and for a dead lineage.
    Nobody has read it since a copy of it began and did not end: that one is needed until another
    copy, which reads and checks each byte, is finished.
    """
    begin = max(segment.start_offset, facts.log_start_offset)
    end = min(segment.end_offset + 1, facts.log_end_offset)
    if segment.state is not _STATE.COPY_SEGMENT_STARTED:
        end = min(end, facts.local_log_start_offset)
    return first_gap(remote, facts.history, begin, end) is not None


def _unfinished(remote: RemoteLog, facts: LogFacts, exempt: Exempt) -> list[ExpiredSegment]:
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
    """Finished segments that log start, time or size let go, oldest first."""
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
            # Its epochs may be gone from the history, which begins at the log start offset.
            yield ExpiredSegment(segment, DeleteReason.LOG_START)
            continue
        if not lineage.holds(segment, facts.log_end_offset):
            continue
        if not remote.serves(segment):
            # Others cover it: it goes as soon as the log start has passed it, and not before.
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
    """By how much the log is larger than it may be; -1 if it is not, or has no limit."""
    limit = limits.retention_bytes
    # All finished segments of whatever lineage are an upper bound that costs nothing (KIP-852).
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
    """The segments of the history's epochs, each once: by epoch, then by start offset."""
    seen: set[Uuid] = set()
    for epoch, _ in history:
        for segment in remote.segments_for_epoch(epoch):
            if segment.id not in seen:
                seen.add(segment.id)
                yield segment
