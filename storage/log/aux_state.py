"""The state that a follower builds from the remote tier if only the tier has the older records.

    leader's local log       |                    ELO ============== end
    a segment in the tier    | start ------- ELO-1 --- end |
    the follower's new log   |       nothing local         | next = end + 1, empty

ELO is the leader's local log start offset. The remote segment that contains ELO - 1 has two
auxiliary files: the leader epochs up to its end and the producer snapshot at its end. With both, an
empty log that begins after that segment is as good as a log that has all earlier records (KIP-405,
"Follower fetch protocol"; Kafka's `TierStateMachine.buildRemoteLogAuxState`).

`start_log_at` puts a log into that state. The caller fetches everything from the tier first, so if
the tier fails, the follower loses nothing. The new segment file is created last and is the commit
point: after a crash before that, the leader sends the follower to the tier again; after a later
crash, the log is complete. No log ever continues at the new offset without its earlier epoch
history.
"""

from itertools import pairwise
from typing import NamedTuple

from ...clients.topic_partition import TopicIdPartition
from ..checkpoint import MalformedCheckpointError, parse_epochs
from ..directory.log_dir import on_disk
from ..producer.producer_snapshot import CorruptSnapshotError, decode_snapshot
from ..remote.remote_lineage import OffsetAndEpoch
from ..remote.remote_segment import RemoteLogSegmentMetadata
from .leader_epoch import EpochEntry
from .log_parts import LogParts


class AuxRequest(NamedTuple):
    """A request for the state after the segment that contains `offset` of leader epoch `epoch`."""

    topic_id_partition: TopicIdPartition
    epoch: int
    offset: int
    """The offset before the leader's local log start, or before its earliest pending upload."""
    leader_log_start_offset: int
    current_leader_epoch: int
    is_tiered: bool
    """Whether this replica already knows that its topic is tiered."""


class AuxState(NamedTuple):
    """The offset at which a log continues, and the log's state below that offset."""

    next_offset: int
    log_start_offset: int
    epochs: list[EpochEntry]
    producer_snapshot: bytes | None
    """None if the producer state is unknown."""


class MalformedAuxStateError(Exception):
    """The files from the tier are not a valid state of the requested segment."""


def target_epoch(start: OffsetAndEpoch, earlier: OffsetAndEpoch | None) -> int:
    """The leader epoch that wrote the offset before `start`.

    `start` may be the first record of its epoch, and earlier epochs may have no records. So the
    follower asks the leader for the end of the epoch before that of `start`. `earlier` is the
    response: the end offset and number of the newest epoch up to that one; None if there is none.
    """
    if earlier is not None and earlier.offset > start.offset - 1:
        return earlier.epoch
    return start.epoch


def aux_state(
    segment: RemoteLogSegmentMetadata, log_start_offset: int, epochs: bytes, snapshot: bytes
) -> AuxState:
    """The state after `segment`, from its two auxiliary files. Raises MalformedAuxStateError."""
    next_offset = segment.end_offset + 1
    try:
        history = [EpochEntry(*entry) for entry in parse_epochs(epochs)]
        decode_snapshot(snapshot)
    except (MalformedCheckpointError, CorruptSnapshotError) as error:
        raise MalformedAuxStateError(str(error)) from error
    ordered = all(
        older.epoch < newer.epoch and older.start_offset < newer.start_offset
        for older, newer in pairwise(history)
    )
    if not ordered or not history or history[-1].start_offset >= next_offset:
        raise MalformedAuxStateError(f"The leader epochs {history} are not those of a log.")
    if history[-1].epoch != segment.segment_leader_epochs[-1][0]:
        raise MalformedAuxStateError(
            f"The leader epochs end with {history[-1].epoch}, the segment with "
            f"{segment.segment_leader_epochs[-1][0]}."
        )
    # The leader that copied the segment may have had a shorter history than the present leader.
    # Remote segments below the history cannot be found, so the log starts with the history.
    log_start_offset = max(log_start_offset, history[0].start_offset)
    return AuxState(
        next_offset, log_start_offset, _trim_history(history, log_start_offset), snapshot
    )


def _trim_history(history: list[EpochEntry], log_start_offset: int) -> list[EpochEntry]:
    """The history from the log start offset on, below which records are deleted (KIP-405)."""
    later = [entry for entry in history if entry.start_offset > log_start_offset]
    before = [entry.epoch for entry in history if entry.start_offset <= log_start_offset]
    return [EpochEntry(before[-1], log_start_offset), *later]


@on_disk
def start_log_at(log: LogParts, state: AuxState, now_ms: int) -> None:
    """Drop every local record and continue at the offset of `state`, with its epochs and producers.

    Raises KafkaError(KAFKA_STORAGE_ERROR).
    """
    offset, log_start_offset = state.next_offset, min(state.log_start_offset, state.next_offset)
    log.log_dir.lower_recovery_point(log.topic_partition, 0)
    log.local.drop_everything()
    log.leader_epochs.replace(state.epochs)
    log.producers.truncate_fully_and_start_at(offset)
    if state.producer_snapshot is not None:
        log.producers.restore(state.producer_snapshot, offset)
    log.local.begin_at(offset, log_start_offset, now_ms)
    log.local.sync_truncation()
    log.producers.on_high_watermark(offset)
