"""How one partition follows its leader: the table of states, truncation, and each error."""

from itertools import pairwise

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.replication.follower.fetch_state import (
    FIRST_RETRY_MS,
    NEXT_STATES,
    TIMESTAMP_ASKED,
    FetchEvent,
    FetchState,
    FollowedPartition,
)
from tierlog.replication.follower.follower_asks import (
    EpochEndAsk,
    FetchAsk,
    Fetched,
    FollowerOptions,
    OffsetAsk,
)
from tierlog.replication.partition.fetch_data import EpochEndOffset
from tierlog.storage.remote.remote_lineage import OffsetAndEpoch
from tierlog.tests.replication.tiered_replicas import (
    BACKOFF_MS,
    NOW_MS,
    PARTITION,
    ReplicaGroup,
    record_batch,
)
from tierlog.tests.simulation.disk import Fault, Kind

S, E = FetchState, FetchEvent
MOVED = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
ON_THE_WAY = set(TIMESTAMP_ASKED) | {S.TIER_EPOCH, S.BUILDING_AUX}


@pytest.mark.parametrize("state", FetchState)
@pytest.mark.parametrize("event", FetchEvent)
def test_every_state_and_event(state: FetchState, event: FetchEvent) -> None:
    after = NEXT_STATES.get((state, event))
    if event in (E.ELECTED, E.ELECTED_UNKNOWN):
        assert after is (S.FETCHING if event is E.ELECTED else S.TRUNCATING)
    elif event in (E.FENCED, E.BROKEN):
        assert after is S.FAILED
    elif event is E.TROUBLE and state in ON_THE_WAY:
        assert after is S.FETCHING, "whatever has changed, the next fetch tells"
    elif state is S.FAILED:
        assert after is None, "only news of the leader wake it"
    elif event is E.TROUBLE:
        assert after is state
    elif event in (E.MOVED_TO_TIER, E.OUT_OF_RANGE, E.FETCHED):
        assert (after is not None) is (state is S.FETCHING)


def test_only_states_on_the_way_lead_to_a_log_that_begins_anew() -> None:
    leads = {state for (state, event) in NEXT_STATES if event in (E.BUILT, E.FOUND_RESET)}
    assert leads == {S.BUILDING_AUX, S.RESET_START, S.TIER_LOCAL, S.TIER_PENDING}


NOT_HEARD_YET = (
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
"""What a leader answers that has not heard of its election, or of the partition."""
PASSING = (
    *NOT_HEARD_YET,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


def following(options: FollowerOptions | None = None) -> FollowedPartition:
    """A follower of epoch 0 that has three records."""
    group = ReplicaGroup(options=options)
    group.elect(1).produce(3)
    follower = group.nodes[2]
    follower.catch_up()
    return follower.followed


def fetch_ask(followed: FollowedPartition, now_ms: int = NOW_MS) -> FetchAsk:
    ask = followed.ask(now_ms)
    assert isinstance(ask, FetchAsk)
    return ask


def pause_ms(error: ErrorCode) -> int:
    return FIRST_RETRY_MS if error in NOT_HEARD_YET else BACKOFF_MS


@pytest.mark.parametrize("error", PASSING)
def test_an_error_of_the_leaders_is_tried_again_after_a_pause(error: ErrorCode) -> None:
    followed = following()
    followed.fetched(fetch_ask(followed), Fetched(error), NOW_MS)
    assert followed.state is FetchState.FETCHING
    due_ms = NOW_MS + pause_ms(error)
    assert followed.ask(due_ms - 1) is None
    again = fetch_ask(followed, due_ms)
    followed.fetched(again, Fetched(high_watermark=3, log_start_offset=0), due_ms)
    assert followed.trouble == ""


@pytest.mark.parametrize("error", NOT_HEARD_YET)
def test_a_leader_that_has_not_heard_yet_is_asked_less_and_less_often(error: ErrorCode) -> None:
    followed, now_ms, pauses = following(), NOW_MS, list[int]()
    for _ in range(12):
        followed.fetched(fetch_ask(followed, now_ms), Fetched(error), now_ms)
        assert followed.due_ms is not None
        pauses.append(followed.due_ms - now_ms)
        now_ms = followed.due_ms
    assert pauses[0] == FIRST_RETRY_MS
    for before, after in pairwise(pauses):
        assert after == (min(BACKOFF_MS, 2 * before))
    assert pauses[-1] == BACKOFF_MS
    # Another leader is another matter.
    followed.follow(1)
    followed.fetched(fetch_ask(followed, now_ms), Fetched(error), now_ms)
    assert followed.due_ms == now_ms + FIRST_RETRY_MS


@pytest.mark.parametrize("error", PASSING)
@pytest.mark.parametrize("reason", [ErrorCode.OFFSET_OUT_OF_RANGE, MOVED])
def test_an_error_on_the_way_leads_back_to_fetching(error: ErrorCode, reason: ErrorCode) -> None:
    followed = following()
    followed.fetched(fetch_ask(followed), Fetched(reason), NOW_MS)
    ask = followed.ask(NOW_MS)
    assert isinstance(ask, OffsetAsk)
    followed.offset_found(ask, error, OffsetAndEpoch(-1, -1), NOW_MS)
    assert (followed.state, followed.due_ms) == (FetchState.FETCHING, NOW_MS + pause_ms(error))
    assert followed.log.log_end_offset == 3


def damaged(batch: memoryview) -> bytes:
    content = bytearray(batch)
    content[:8] = (3).to_bytes(8, "big")
    content[-1] ^= 1
    return bytes(content)


def test_records_that_arrive_damaged_are_fetched_again() -> None:
    followed = following()
    answer = Fetched(ErrorCode.NONE, 3, 0, damaged(record_batch(b"x")))
    followed.fetched(fetch_ask(followed), answer, NOW_MS)
    assert followed.log.log_end_offset == 3
    assert followed.state is FetchState.FETCHING
    assert followed.due_ms == NOW_MS + BACKOFF_MS


def test_a_disk_that_fails_stops_the_partition() -> None:
    group = ReplicaGroup()
    leader, follower = group.elect(1), group.nodes[2]
    leader.produce()
    follower.disk.faults.append(Fault(Kind.WRITE, suffix=".log"))
    follower.step()
    assert follower.followed.state is FetchState.FAILED
    group.now_ms += 10 * BACKOFF_MS
    assert follower.step() is None


def test_records_of_an_epoch_that_is_not_known_yet_are_left() -> None:
    """Its history is to be compared with ours first."""
    followed = following()
    batches = bytearray()
    for offset, epoch in ((3, 0), (4, 1)):
        batch = bytearray(record_batch(b"x"))
        batch[:8], batch[12:16] = offset.to_bytes(8, "big"), epoch.to_bytes(4, "big")
        batches += batch
    followed.fetched(fetch_ask(followed), Fetched(ErrorCode.NONE, 3, 0, batches), NOW_MS)
    assert followed.log.log_end_offset == followed.fetch_offset == 4
    assert followed.last_fetched_epoch == 0


def test_an_answer_that_comes_too_late_says_nothing() -> None:
    followed = following()
    late = fetch_ask(followed)
    followed.follow(1)
    now = fetch_ask(followed)
    assert now.current_leader_epoch == 1
    followed.fetched(late, Fetched(ErrorCode.FENCED_LEADER_EPOCH), NOW_MS)
    followed.fetched(late, Fetched(MOVED), NOW_MS)
    followed.failed(late, "lost", NOW_MS)
    assert followed.state is FetchState.FETCHING
    assert followed.trouble == ""


def test_the_same_leader_again_disturbs_nothing() -> None:
    followed = following()
    ask = fetch_ask(followed)
    followed.follow(0)
    followed.fetched(ask, Fetched(MOVED), NOW_MS)
    assert followed.state is FetchState.TIER_END
    followed.follow(0)
    assert followed.state is FetchState.TIER_END


def test_a_log_without_a_history_is_cut_to_its_high_watermark() -> None:
    followed = following()
    log = followed.log
    log.leader_epochs.clear()
    log.update_high_watermark(2)
    followed.follow(1)
    assert followed.state is FetchState.TRUNCATING
    ask = fetch_ask(followed)
    assert (ask.offset, ask.last_fetched_epoch) == (2, -1)
    assert log.log_end_offset == 2


def with_epochs(entries: dict[int, int], end: int) -> FollowedPartition:
    """A follower whose log has this history."""
    group = ReplicaGroup()
    node = group.nodes[1]
    for offset in range(end):
        epoch = max(each for each, start in entries.items() if start <= offset)
        while group.image.leader_epoch < epoch:
            group.elect(1)
        node.produce()
    assert node.epochs == entries
    followed = FollowedPartition(PARTITION, node.log, group.options)
    followed.follow(group.image.leader_epoch + 1)
    return followed


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        # The leader's epoch ends before, or after, ours of the same number.
        (EpochEndOffset(3, 8), 8),
        (EpochEndOffset(3, 20), 10),
        (EpochEndOffset(1, 4), 4),
        (EpochEndOffset(1, 9), 6),
        # The leader has an epoch that we have not: the end of ours before it counts.
        (EpochEndOffset(2, 7), 6),
        # The leader's is older than all of ours: they all start above its end.
        (EpochEndOffset(0, 0), 0),
    ],
)
@pytest.mark.parametrize("is_fetched", [True, False])
def test_the_log_is_cut_where_the_histories_part(
    answer: EpochEndOffset, kept: int, is_fetched: bool
) -> None:
    followed = with_epochs({1: 0, 3: 6}, 10)
    if is_fetched:
        followed.fetched(fetch_ask(followed), Fetched(high_watermark=3, diverging=answer), NOW_MS)
    else:
        followed = FollowedPartition(
            PARTITION, followed.log, FollowerOptions(truncates_on_fetch=False)
        )
        followed.follow(9)
        ask = followed.ask(NOW_MS)
        assert isinstance(ask, EpochEndAsk)
        assert ask.epoch == 3
        followed.epoch_end_found(ask, ErrorCode.NONE, answer, NOW_MS)
        is_complete = answer.epoch != 2
        assert followed.state is (FetchState.FETCHING if is_complete else FetchState.TRUNCATING)
    assert followed.log.log_end_offset == followed.fetch_offset == kept
    assert followed.last_fetched_epoch == followed.log.leader_epochs.latest_epoch


def test_an_end_that_the_leader_does_not_know_cuts_to_what_is_sure() -> None:
    followed = with_epochs({1: 0}, 4)
    followed.log.update_high_watermark(3)
    unsure = FollowedPartition(PARTITION, followed.log, FollowerOptions(truncates_on_fetch=False))
    unsure.follow(9)
    ask = unsure.ask(NOW_MS)
    assert isinstance(ask, EpochEndAsk)
    unsure.epoch_end_found(ask, ErrorCode.NONE, EpochEndOffset(-1, -1), NOW_MS)
    assert unsure.log.log_end_offset == 3


def out_of_range(followed: FollowedPartition, *answers: int) -> None:
    """The fetch is out of range; ListOffsets says what is given, one after the other."""
    followed.fetched(fetch_ask(followed), Fetched(ErrorCode.OFFSET_OUT_OF_RANGE), NOW_MS)
    for answer in answers:
        ask = followed.ask(NOW_MS)
        assert isinstance(ask, OffsetAsk)
        followed.offset_found(ask, ErrorCode.NONE, OffsetAndEpoch(answer, 0), NOW_MS)


def test_beyond_the_leaders_end_the_log_is_cut_there() -> None:
    followed = following()
    out_of_range(followed, 2)
    assert (followed.state, followed.fetch_offset, followed.lag) == (FetchState.FETCHING, 2, 0)
    assert followed.log.log_end_offset == 2


def test_below_the_leaders_start_the_log_begins_anew_there() -> None:
    followed = following()
    out_of_range(followed, 30, 20)
    assert (followed.fetch_offset, followed.lag) == (20, 10)
    log = followed.log
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (20, 20, 20)
    assert followed.last_fetched_epoch == -1


def test_within_the_leaders_log_after_all_nothing_is_cut() -> None:
    followed = following()
    out_of_range(followed, 30, 1)
    assert (followed.fetch_offset, followed.lag) == (3, 27)
    assert followed.log.log_end_offset == 3


def test_a_log_start_in_the_middle_of_a_batch() -> None:
    """The leader sends the whole batch; an empty log begins with it."""
    followed = following()
    out_of_range(followed, 30, 20)
    batch = bytearray(build_batch([Record(0, NOW_MS, None, b"x", ())] * 3))
    batch[:8], batch[12:16] = (18).to_bytes(8, "big"), (0).to_bytes(4, "big")
    followed.fetched(fetch_ask(followed), Fetched(ErrorCode.NONE, 21, 20, batch), NOW_MS)
    log = followed.log
    assert (log.log_start_offset, log.log_end_offset) == (20, 21)
    assert log.local.segments.first.base_offset == 18


def test_a_leader_whose_log_is_all_local_by_now_is_followed_from_its_start() -> None:
    """The offset was in the tier when it was fetched, and had been deleted when that was asked."""
    followed = following()
    followed.fetched(fetch_ask(followed), Fetched(MOVED), NOW_MS)
    for timestamp, answer in ((-1, 30), (-2, 20), (-4, 20)):
        ask = followed.ask(NOW_MS)
        assert isinstance(ask, OffsetAsk)
        assert ask.timestamp == timestamp
        followed.offset_found(ask, ErrorCode.NONE, OffsetAndEpoch(answer, 0), NOW_MS)
    assert (followed.state, followed.fetch_offset) == (FetchState.FETCHING, 20)


def test_a_leader_that_does_not_know_the_epoch_of_its_local_start_is_asked_again() -> None:
    followed = following()
    followed.fetched(fetch_ask(followed), Fetched(MOVED), NOW_MS)
    for answer in (30, 0, 20):
        ask = followed.ask(NOW_MS)
        assert isinstance(ask, OffsetAsk)
        followed.offset_found(ask, ErrorCode.NONE, OffsetAndEpoch(answer, -1), NOW_MS)
    assert (followed.state, followed.fetch_offset) == (FetchState.FETCHING, 3)
    assert "epoch" in followed.trouble
