"""The state machine of one follower: its next request, and what each response does to its log.

    TRUNCATING ------> FETCHING <--------------------------------------------------+
    where do we diverge?|  ^  |  records are appended; a diverging epoch truncates the log
                        |  |  |
       out of range (1) |  |  | moved to tiered storage (109)
                        v  |  v
    RESET_END, RESET_START |  TIER_END, TIER_START, TIER_LOCAL or TIER_PENDING, TIER_EPOCH
    where does the         |  where does the leader's local log start, and which epoch is that?
    leader's log lie? -----+                            v
                           +------------------- BUILDING_AUX: the tier is read

Each state sends one request and waits for its response; `NEXT_STATES` maps each response to the
next state. The states from TIER_END to BUILDING_AUX are KIP-405's BuildingRemoteLogAux. A transient
error outside TRUNCATING leads to FETCHING after a pause: the response to the next fetch shows what
to do, whatever has changed meanwhile.

Rules (Kafka's `AbstractFetcherThread`, `ReplicaFetcherThread` and `TierStateMachine`):

- a response is ignored if the state has changed since its request;
- the log is truncated where it diverges from the leader's, never just at the high watermark, unless
  it has no epoch history (KIP-101, KIP-279; in the fetch itself: KIP-595);
- the log deletes nothing before everything that replaces it has been fetched (KIP-405);
- a fenced leader epoch or a failed disk stops the partition until the next `follow`;
  everything else is retried after `replica.fetch.backoff.ms`, but a leader that has not heard of
  its election yet is asked again soon, and then less and less often: Kafka waits as long here, too,
  and producers with acks=all wait with it.

Nothing here blocks or does network I/O. See `followed_partitions.py` for many partitions.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TypeVarTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.offset_names import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
)
from ...clients.record.batch import batches
from ...clients.topic_partition import TopicIdPartition
from ...storage.log.aux_state import AuxRequest, AuxState, target_epoch
from ...storage.log.unified_log import UnifiedLog
from ...storage.remote.remote_lineage import OffsetAndEpoch
from ..partition.fetch_data import NO_EPOCH, EpochEndOffset
from .follower_asks import Ask, AuxAsk, EpochEndAsk, FetchAsk, Fetched, FollowerOptions, OffsetAsk

FIRST_RETRY_MS = 10
"""The pause before a leader that has not heard of its election is asked again; each is doubled."""

_NOT_HEARD_YET = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


class FetchState(Enum):
    """The state of a follower, which decides its next request."""

    TRUNCATING = "asks where the epoch of its last record ends"
    FETCHING = "asks for records"
    RESET_END = "out of range: asks where the leader's log ends"
    RESET_START = "out of range: asks where the leader's log starts"
    TIER_END = "moved to the tier: asks where the leader's log ends"
    TIER_START = "moved to the tier: asks where the leader's log starts"
    TIER_PENDING = "moved to the tier: asks for the first offset that is not in the tier"
    TIER_LOCAL = "moved to the tier: asks where the leader's local log starts"
    TIER_EPOCH = "moved to the tier: asks for the epoch before that start"
    BUILDING_AUX = "asks the tier for the state at that start"
    FAILED = "waits until it learns of its leader"


class FetchEvent(Enum):
    """The outcome of a response or of a metadata change."""

    ELECTED = "a leader, and the log has a history to compare"
    ELECTED_UNKNOWN = "a leader, and the log must be truncated before it may fetch"
    FETCHED = "records, or none"
    DIVERGED = "the log was truncated where it diverges from the leader's"
    DIVERGED_FURTHER = "the log was truncated, and an older epoch must be requested"
    OUT_OF_RANGE = "the offset lies outside the leader's log"
    MOVED_TO_TIER = "the offset is only in the tier"
    FOUND = "the requested offset"
    FOUND_SHORTER = "the leader's log ends before the local log, which was truncated"
    FOUND_RESET = "the log starts again at the leader's log start"
    WANTS_PENDING = "an empty log is to begin after what is in the tier (KIP-1023)"
    UNKNOWN_PENDING = "the leader does not know the copied offset yet"
    NEEDS_NO_EPOCH = "there is no earlier epoch to ask for"
    BUILT = "the log continues at the leader's local log start"
    TROUBLE = "a retriable error"
    FENCED = "the leader epoch is over"
    BROKEN = "the local log cannot be used"


_S, _E = FetchState, FetchEvent
_ON_THE_WAY = (
    _S.RESET_END,
    _S.RESET_START,
    _S.TIER_END,
    _S.TIER_START,
    _S.TIER_PENDING,
    _S.TIER_LOCAL,
    _S.TIER_EPOCH,
    _S.BUILDING_AUX,
)

NEXT_STATES: Mapping[tuple[FetchState, FetchEvent], FetchState] = MappingProxyType(
    {
        **{(state, _E.ELECTED): _S.FETCHING for state in _S},
        **{(state, _E.ELECTED_UNKNOWN): _S.TRUNCATING for state in _S},
        **{(state, _E.FENCED): _S.FAILED for state in _S},
        **{(state, _E.BROKEN): _S.FAILED for state in _S},
        **{(state, _E.TROUBLE): _S.FETCHING for state in (_S.FETCHING, *_ON_THE_WAY)},
        (_S.TRUNCATING, _E.TROUBLE): _S.TRUNCATING,
        (_S.TRUNCATING, _E.DIVERGED): _S.FETCHING,
        (_S.TRUNCATING, _E.DIVERGED_FURTHER): _S.TRUNCATING,
        (_S.FETCHING, _E.FETCHED): _S.FETCHING,
        (_S.FETCHING, _E.DIVERGED): _S.FETCHING,
        # The next fetch sends the older epoch; its response shows whether the logs still diverge.
        (_S.FETCHING, _E.DIVERGED_FURTHER): _S.FETCHING,
        (_S.FETCHING, _E.OUT_OF_RANGE): _S.RESET_END,
        (_S.FETCHING, _E.MOVED_TO_TIER): _S.TIER_END,
        (_S.RESET_END, _E.FOUND): _S.RESET_START,
        (_S.RESET_END, _E.FOUND_SHORTER): _S.FETCHING,
        (_S.RESET_END, _E.WANTS_PENDING): _S.TIER_START,
        (_S.RESET_START, _E.FOUND_RESET): _S.FETCHING,
        (_S.TIER_END, _E.FOUND): _S.TIER_START,
        (_S.TIER_START, _E.FOUND): _S.TIER_LOCAL,
        (_S.TIER_START, _E.WANTS_PENDING): _S.TIER_PENDING,
        (_S.TIER_PENDING, _E.FOUND): _S.TIER_EPOCH,
        (_S.TIER_PENDING, _E.NEEDS_NO_EPOCH): _S.BUILDING_AUX,
        (_S.TIER_PENDING, _E.UNKNOWN_PENDING): _S.TIER_LOCAL,
        (_S.TIER_PENDING, _E.FOUND_RESET): _S.FETCHING,
        (_S.TIER_LOCAL, _E.FOUND): _S.TIER_EPOCH,
        (_S.TIER_LOCAL, _E.NEEDS_NO_EPOCH): _S.BUILDING_AUX,
        (_S.TIER_LOCAL, _E.FOUND_RESET): _S.FETCHING,
        (_S.TIER_EPOCH, _E.FOUND): _S.BUILDING_AUX,
        (_S.BUILDING_AUX, _E.BUILT): _S.FETCHING,
    }
)
"""Any other pair is a bug."""

TIMESTAMP_ASKED: Mapping[FetchState, int] = MappingProxyType(
    {
        _S.RESET_END: LATEST_TIMESTAMP,
        _S.RESET_START: EARLIEST_TIMESTAMP,
        _S.TIER_END: LATEST_TIMESTAMP,
        _S.TIER_START: EARLIEST_TIMESTAMP,
        _S.TIER_PENDING: EARLIEST_PENDING_UPLOAD_TIMESTAMP,
        _S.TIER_LOCAL: EARLIEST_LOCAL_TIMESTAMP,
    }
)
"""The states that send ListOffsets, and the timestamp that each sends."""


StepArguments = TypeVarTuple("StepArguments")


class _Trouble(Exception):
    """A response that cannot be used; the message says why."""


class FollowedPartition:
    """One follower's state machine; see the top of this file."""

    def __init__(
        self, topic_id_partition: TopicIdPartition, log: UnifiedLog, options: FollowerOptions
    ) -> None:
        self.topic_id_partition = topic_id_partition
        self.log = log
        self.state = FetchState.FAILED
        self.leader_epoch = NO_EPOCH
        self.fetch_offset = 0
        """The next offset to fetch, which is where the log ends."""
        self.last_fetched_epoch = NO_EPOCH
        """The epoch of the record before `fetch_offset`."""
        self.lag: int | None = None
        """Records behind the leader's high watermark; None before the first response."""
        self.delayed_until_ms = 0
        """No request is sent before this time."""
        self.trouble = ""
        """Why the partition is delayed or has failed; empty if neither is the case."""
        self.options = options
        """May change at any time."""
        self.outstanding: Ask | None = None
        """The request that waits for its response."""
        self._retry_ms = FIRST_RETRY_MS
        self._leader_end = 0
        self._leader_start = 0
        self._from_last_tiered = False
        self._start = OffsetAndEpoch(0, 0)
        """The offset to restart the log at, and the epoch of the record there."""

    def follow(self, leader_epoch: int) -> None:
        """Follow the leader of this epoch. Does nothing if it is already followed."""
        if leader_epoch == self.leader_epoch and self.state is not FetchState.FAILED:
            return
        self.leader_epoch = leader_epoch
        self.outstanding = None
        self.delayed_until_ms = 0
        self._retry_ms = FIRST_RETRY_MS
        self.trouble = ""
        self.lag = None
        self.last_fetched_epoch = self.log.leader_epochs.latest_epoch
        has_history = self.last_fetched_epoch != NO_EPOCH
        self.fetch_offset = self.log.log_end_offset if has_history else self.log.high_watermark
        knows = has_history and self.options.truncates_on_fetch
        self._apply(FetchEvent.ELECTED if knows else FetchEvent.ELECTED_UNKNOWN)

    def leave(self) -> None:
        """Ignore the response that is outstanding, if any: the partition is not followed here."""
        self.outstanding = None

    def break_down(self, reason: str) -> None:
        """Stop until the next `follow`, after an unexpected error."""
        self.outstanding = None
        self._apply(FetchEvent.BROKEN)
        self.trouble = reason

    @property
    def fetches_next(self) -> bool:
        """Whether the next request is for records; a log without history is cut without asking."""
        is_cut_alone = self.last_fetched_epoch == NO_EPOCH
        return self.state is FetchState.FETCHING or (
            self.state is FetchState.TRUNCATING and is_cut_alone
        )

    @property
    def is_in_sync(self) -> bool:
        """Whether the log has all that the leader's last response called committed."""
        return self.lag is not None and self.lag <= 0

    @property
    def due_ms(self) -> int | None:
        """When the next request is due; None while one is outstanding, or if failed."""
        is_idle = self.outstanding is None and self.state is not FetchState.FAILED
        return self.delayed_until_ms if is_idle else None

    def is_ready(self, now_ms: int) -> bool:
        """Whether `ask` returns a request now."""
        due_ms = self.due_ms
        return due_ms is not None and due_ms <= now_ms

    def ask(self, now_ms: int) -> Ask | None:
        """The request to send now; None while one is outstanding, during a pause, or if failed."""
        if not self.is_ready(now_ms):
            return None
        if self.state is FetchState.TRUNCATING and self.last_fetched_epoch == NO_EPOCH:
            self._attempt(now_ms, self._cut_unchecked)
            if not self.is_ready(now_ms):
                return None
        self.outstanding = self._next_ask()
        return self.outstanding

    def _next_ask(self) -> Ask:
        state, epoch = self.state, self.leader_epoch
        timestamp = TIMESTAMP_ASKED.get(state)
        if timestamp is not None:
            return OffsetAsk(timestamp, epoch)
        if state is FetchState.TRUNCATING:
            return EpochEndAsk(self.last_fetched_epoch, epoch)
        if state is FetchState.TIER_EPOCH:
            return EpochEndAsk(self._start.epoch - 1, epoch)
        if state is FetchState.BUILDING_AUX:
            return AuxAsk(
                AuxRequest(
                    self.topic_id_partition,
                    self._start.epoch,
                    self._start.offset - 1,
                    self._leader_start,
                    epoch,
                    self.log.is_tiered,
                )
            )
        last_epoch = self.last_fetched_epoch if self.options.truncates_on_fetch else NO_EPOCH
        return FetchAsk(self.fetch_offset, epoch, last_epoch, self.log.log_start_offset)

    def fetched(
        self, ask: FetchAsk, answer: Fetched, now_ms: int, wall_ms: int | None = None
    ) -> bool:
        """Handle the leader's Fetch response. `wall_ms` dates new segments, `now_ms` if None.

        Returns whether the high watermark and log start of the response were used.
        """
        if not self._is_awaited(ask):
            return False
        if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._apply(FetchEvent.OUT_OF_RANGE)
        elif answer.error is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            self._apply(FetchEvent.MOVED_TO_TIER)
        elif answer.error is not ErrorCode.NONE:
            self._on_error(answer.error, now_ms)
        elif answer.diverging is not None:
            self._attempt(now_ms, self._truncate_to_common_end, answer.diverging)
        else:
            appended_ms = now_ms if wall_ms is None else wall_ms
            return self._attempt(now_ms, self._append, answer, appended_ms)
        return False

    def offset_found(
        self, ask: OffsetAsk, error: ErrorCode, offset_and_epoch: OffsetAndEpoch, now_ms: int
    ) -> None:
        """Handle the leader's ListOffsets response."""
        if not self._is_awaited(ask):
            return
        if error is not ErrorCode.NONE:
            self._on_error(error, now_ms)
            return
        self._attempt(now_ms, self._take_offset, offset_and_epoch)

    def epoch_end_found(
        self, ask: EpochEndAsk, error: ErrorCode, epoch_end: EpochEndOffset, now_ms: int
    ) -> None:
        """Handle the leader's OffsetForLeaderEpoch response; (-1, -1) is an unknown end."""
        if not self._is_awaited(ask):
            return
        if error is not ErrorCode.NONE:
            self._on_error(error, now_ms)
        elif self.state is FetchState.TRUNCATING:
            self._attempt(now_ms, self._truncate_to_common_end, epoch_end)
        else:
            earlier = OffsetAndEpoch(epoch_end.end_offset, epoch_end.epoch)
            self._start = OffsetAndEpoch(self._start.offset, target_epoch(self._start, earlier))
            self._apply(FetchEvent.FOUND)

    def aux_fetched(self, ask: AuxAsk, state: AuxState, now_ms: int) -> None:
        """Handle the log's state at its new start, as read from the tier."""
        if self._is_awaited(ask):
            self._attempt(now_ms, self._build, state)

    def failed(self, ask: Ask, reason: str, now_ms: int) -> None:
        """Handle a request without a response: the leader is unreachable, or the tier failed."""
        if self._is_awaited(ask):
            self._delay(reason, now_ms)

    def give_up(self, reason: str, now_ms: int) -> None:
        """Retry after the back-off what is asked of the leader, if anything is."""
        if self.outstanding is not None and not isinstance(self.outstanding, AuxAsk):
            self.failed(self.outstanding, reason, now_ms)

    def _is_awaited(self, ask: Ask) -> bool:
        """Whether `ask` is the outstanding request; if so, clear it."""
        if ask is not self.outstanding:
            return False
        self.outstanding = None
        return True

    def _append(self, answer: Fetched, now_ms: int) -> None:
        log = self.log
        records = self._of_known_epochs(memoryview(answer.records))
        if records.nbytes:
            log.append_as_follower(records, now_ms)
        high_watermark = log.update_high_watermark(answer.high_watermark)
        log_start_offset = min(answer.log_start_offset, high_watermark)
        if log_start_offset > log.log_start_offset:
            log.maybe_increment_log_start_offset(log_start_offset)
        self._apply(FetchEvent.FETCHED)
        self._continue_at_end(max(0, answer.high_watermark - log.log_end_offset))

    def _of_known_epochs(self, records: memoryview) -> memoryview:
        """The batches up to our leader epoch. May also move the start of an empty log.

        Batches of a later epoch come from a leader that we do not follow yet: the histories must
        be compared first. If the leader's log starts in the middle of the first batch, an empty log
        is restarted at the base offset of that batch.
        """
        log, size = self.log, 0
        for batch in batches(records):
            if batch.partition_leader_epoch > self.leader_epoch:
                break
            end = log.log_end_offset
            is_around_end = batch.base_offset < end <= batch.last_offset
            if size == 0 and is_around_end and end == log.log_start_offset:
                log.truncate_fully_and_start_at(batch.base_offset)
            size += batch.size_in_bytes
        return records[:size]

    def _truncate_to_common_end(self, leader: EpochEndOffset) -> None:
        """Truncate the log where it diverges from the leader's (KIP-101, KIP-279)."""
        log = self.log
        end = log.log_end_offset
        if leader.end_offset < 0:
            self._truncate(min(self.fetch_offset, log.high_watermark), is_enough=True)
        elif leader.epoch < 0:
            self._truncate(min(leader.end_offset, end), is_enough=True)
        else:
            epoch, epoch_end = log.end_offset_for_epoch(leader.epoch)
            if epoch_end < 0:
                self._truncate(min(leader.end_offset, end), is_enough=True)
            elif epoch != leader.epoch:
                # Our epoch is older: the leader has none of our later epochs.
                self._truncate(min(epoch_end, end), is_enough=False)
            else:
                self._truncate(min(leader.end_offset, epoch_end, end), is_enough=True)

    def _cut_unchecked(self) -> None:
        """Truncate a log without history: what is below the high watermark matches the leader's."""
        self._truncate(self.fetch_offset, is_enough=True)

    def _truncate(self, offset: int, *, is_enough: bool) -> None:
        self.log.truncate_to(offset)
        self._apply(FetchEvent.DIVERGED if is_enough else FetchEvent.DIVERGED_FURTHER)
        self._continue_at_end(self.lag)

    def _take_offset(self, offset_and_epoch: OffsetAndEpoch) -> None:
        state = self.state
        if state in (FetchState.RESET_END, FetchState.TIER_END):
            self._take_end(offset_and_epoch.offset)
        elif state is FetchState.RESET_START:
            self._reset(offset_and_epoch.offset)
        elif state is FetchState.TIER_START:
            self._leader_start = offset_and_epoch.offset
            wants = self._from_last_tiered
            self._apply(FetchEvent.WANTS_PENDING if wants else FetchEvent.FOUND)
        elif state is FetchState.TIER_PENDING and offset_and_epoch.offset < 0:
            self._apply(FetchEvent.UNKNOWN_PENDING)
        else:
            self._take_start(offset_and_epoch)

    def _take_end(self, leader_end: int) -> None:
        log = self.log
        self._leader_end = leader_end
        self._from_last_tiered = (
            self.options.fetches_last_tiered
            and log.is_tiered
            and not log.config.is_compacted
            and log.log_end_offset == 0
            and leader_end != 0
        )
        if self.state is FetchState.TIER_END:
            self._apply(FetchEvent.FOUND)
        elif self._from_last_tiered:
            self._apply(FetchEvent.WANTS_PENDING)
        elif leader_end < log.log_end_offset:
            # An unclean election, and too little history to detect the divergence.
            log.truncate_to(leader_end)
            self._apply(FetchEvent.FOUND_SHORTER)
            self._continue_at_end(0)
        else:
            self._apply(FetchEvent.FOUND)

    def _reset(self, leader_start: int) -> None:
        """Restart at the leader's log start, tier included, unless our log reaches that far."""
        if leader_start > self.log.log_end_offset:
            self.log.truncate_fully_and_start_at(leader_start)
        self._apply(FetchEvent.FOUND_RESET)
        self._continue_at_end(max(0, self._leader_end - self.log.log_end_offset))

    def _take_start(self, start: OffsetAndEpoch) -> None:
        """Handle the leader's local log start, or its earliest pending upload offset."""
        was_unknown = self._from_last_tiered and self.state is FetchState.TIER_LOCAL
        if was_unknown and start.offset != self._leader_start:
            raise _Trouble(
                "Segments are uploaded to remote storage, but the leader does not know the "
                "earliest pending upload offset."
            )
        if start.offset <= self._leader_start:
            # No part of the leader's log is only in the tier.
            self._reset(self._leader_start)
        elif start.epoch < 0:
            raise _Trouble(f"The leader does not know the epoch of its offset {start.offset}.")
        else:
            self._start = start
            is_first = start.epoch == 0
            self._apply(FetchEvent.NEEDS_NO_EPOCH if is_first else FetchEvent.FOUND)

    def _build(self, state: AuxState) -> None:
        self.log.start_at(state)
        self._apply(FetchEvent.BUILT)
        self._continue_at_end(max(0, self._leader_end - state.next_offset))

    def _continue_at_end(self, lag: int | None) -> None:
        self.fetch_offset = self.log.log_end_offset
        self.last_fetched_epoch = self.log.leader_epochs.latest_epoch
        self.lag = lag
        self.trouble = ""

    def _attempt(
        self, now_ms: int, step: "Callable[[*StepArguments], None]", *arguments: *StepArguments
    ) -> bool:
        """Run the handler of a response; an error affects this partition only. True: no error."""
        try:
            step(*arguments)
            return True
        except _Trouble as error:
            self._delay(str(error), now_ms)
        except KafkaError as error:
            if error.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD):
                # Damaged in transit or on the leader's disk: a retry may succeed.
                self._delay(str(error), now_ms)
            else:
                self._apply(FetchEvent.BROKEN)
                self.trouble = str(error)
        return False

    def _on_error(self, error: ErrorCode, now_ms: int) -> None:
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            self._apply(FetchEvent.FENCED)
            self.trouble = f"Leader epoch {self.leader_epoch} has ended."
        else:
            self._delay(f"The leader returned {error.name}.", now_ms)
            if error in _NOT_HEARD_YET and self._retry_ms < self.options.backoff_ms:
                self.delayed_until_ms = now_ms + self._retry_ms
                self._retry_ms *= 2

    def _delay(self, reason: str, now_ms: int) -> None:
        self._apply(FetchEvent.TROUBLE)
        self.trouble = reason
        self.delayed_until_ms = now_ms + self.options.backoff_ms

    def _apply(self, event: FetchEvent) -> None:
        self.state = NEXT_STATES[self.state, event]
