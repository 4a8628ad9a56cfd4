"""Incremental fetch sessions, rule by rule (KIP-227)."""

from random import Random

import pytest

from tierlog.broker.request.fetch_session import (
    EVICTION_MS,
    FetchContext,
    FetchSessionCache,
    SessionPartition,
    SessionSizes,
    next_epoch,
)
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.clients.protocol.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

TOPIC_ID = Uuid(b"T" * 16)


def cache(slots: int = 10, partitions_max: int = 100, largest: int = 50) -> FetchSessionCache:
    return FetchSessionCache(slots, Random(1), SessionSizes(partitions_max, largest))


def request(
    *offsets: int,
    session_id: int = 0,
    epoch: int = 0,
    forget: tuple[int, ...] = (),
    topic_id: Uuid = ZERO_UUID,
) -> FetchRequest:
    """Partitions 0, 1, ... of one topic, each at its offset; -1 leaves one out."""
    partitions = [
        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=100)
        for number, offset in enumerate(offsets)
        if offset >= 0
    ]
    name = "" if topic_id != ZERO_UUID else "t"
    topics = [FetchTopic(topic=name, topic_id=topic_id, partitions=partitions)]
    forgotten = [ForgottenTopic(topic=name, topic_id=topic_id, partitions=list(forget))]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=topics if partitions else [],
        forgotten_topics_data=forgotten if forget else [],
    )


def numbers(context: FetchContext) -> list[int]:
    return [each.key.partition for each in context.partitions]


def answers(
    context: FetchContext, records: dict[int, bytes] | None = None, high_watermark: int = 5
) -> list[tuple[SessionPartition, PartitionData]]:
    return [
        (
            each,
            PartitionData(
                partition_index=each.key.partition,
                high_watermark=high_watermark,
                log_start_offset=0,
                records=(records or {}).get(each.key.partition, b""),
            ),
        )
        for each in context.partitions
    ]


def shown(
    context: FetchContext, answered: list[tuple[SessionPartition, PartitionData]]
) -> list[int]:
    assert context.session is not None
    return [partition.key.partition for partition, _ in context.session.results_to_send(answered)]


def refusal(
    sessions: FetchSessionCache, asked: FetchRequest, *, topic_ids: bool = False
) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        sessions.begin(asked, False, 0, topic_ids=topic_ids)
    return caught.value.code


def opened(sessions: FetchSessionCache, *offsets: int, now_ms: int = 0) -> int:
    context = sessions.begin(request(*offsets), False, now_ms)
    assert context.session is not None
    context.session.note_all(answers(context))
    return context.session.session_id


def test_epoch_zero_opens_a_session_and_answers_in_full() -> None:
    sessions = cache()
    context = sessions.begin(request(0, 0, 0), False, 0)
    assert context.session is not None
    assert context.session.session_id > 0
    assert not context.is_incremental
    assert numbers(context) == [0, 1, 2]


def test_the_final_epoch_opens_none_and_closes_the_one_named() -> None:
    sessions = cache()
    session_id = opened(sessions, 0)
    context = sessions.begin(request(0, session_id=session_id, epoch=-1), False, 0)
    assert context.session is None
    assert len(sessions) == 0


def test_an_incremental_request_names_only_what_changed() -> None:
    sessions = cache()
    session_id = opened(sessions, 0, 0, 0)
    context = sessions.begin(request(-1, 7, session_id=session_id, epoch=1), False, 0)
    assert context.is_incremental
    assert {each.key.partition: each.request.fetch_offset for each in context.partitions} == {
        0: 0,
        1: 7,
        2: 0,
    }


def test_a_partition_without_news_is_left_out() -> None:
    sessions = cache()
    session_id = opened(sessions, 0, 0, 0)
    context = sessions.begin(request(session_id=session_id, epoch=1), False, 0)
    assert shown(context, answers(context)) == []
    context = sessions.begin(request(session_id=session_id, epoch=2), False, 0)
    assert shown(context, answers(context, {1: b"records"})) == [1]
    context = sessions.begin(request(session_id=session_id, epoch=3), False, 0)
    assert shown(context, answers(context, high_watermark=6)) == [0, 2, 1]


def test_what_was_answered_with_records_goes_to_the_end_of_the_line() -> None:
    sessions = cache()
    session_id = opened(sessions, 0, 0, 0)
    context = sessions.begin(request(session_id=session_id, epoch=1), False, 0)
    shown(context, answers(context, {0: b"records"}))
    context = sessions.begin(request(session_id=session_id, epoch=2), False, 0)
    assert numbers(context) == [1, 2, 0]


def test_an_error_is_news_every_time_and_so_is_its_end() -> None:
    sessions = cache()
    session_id = opened(sessions, 0)
    failed = PartitionData(
        partition_index=0, error_code=6, high_watermark=-1, log_start_offset=-1, records=b""
    )
    for epoch in (1, 2):
        context = sessions.begin(request(session_id=session_id, epoch=epoch), False, 0)
        assert shown(context, [(context.partitions[0], failed)]) == [0]
    context = sessions.begin(request(session_id=session_id, epoch=3), False, 0)
    assert shown(context, answers(context)) == [0]
    context = sessions.begin(request(session_id=session_id, epoch=4), False, 0)
    assert shown(context, answers(context)) == []


def bounds(error_code: int = 0, log_start: int = 0) -> PartitionData:
    """An answer without records, whose high watermark is known to every session here."""
    return PartitionData(
        partition_index=0,
        error_code=error_code,
        high_watermark=5,
        log_start_offset=log_start,
        records=b"",
    )


def diverging() -> PartitionData:
    """An answer that makes a follower truncate its log."""
    answer = bounds()
    answer.diverging_epoch = EpochEndOffset(epoch=1, end_offset=3)
    return answer


@pytest.mark.parametrize(
    "story",
    [
        [(bounds(56), True), (bounds(), True), (bounds(), False)],
        [(diverging(), True), (bounds(), True), (bounds(), False)],
        [(bounds(), False), (bounds(log_start=3), True), (bounds(log_start=3), False)],
    ],
    ids=[
        "what was known before an error is told again after it",
        "a follower that truncates uses no offsets, so they are told again",
        "a log start that moves is news",
    ],
)
def test_bounds_that_are_news(story: list[tuple[PartitionData, bool]]) -> None:
    sessions = cache()
    session_id = opened(sessions, 0)
    for epoch, (answer, is_news) in enumerate(story, start=1):
        context = sessions.begin(request(session_id=session_id, epoch=epoch), False, 0)
        assert bool(shown(context, [(context.partitions[0], answer)])) is is_news


def test_a_diverging_epoch_is_news() -> None:
    sessions = cache()
    session_id = opened(sessions, 0)
    context = sessions.begin(request(session_id=session_id, epoch=1), False, 0)
    [(partition, answer)] = answers(context)
    answer.diverging_epoch = EpochEndOffset(epoch=1, end_offset=3)
    assert shown(context, [(partition, answer)]) == [0]


def test_the_epoch_must_be_the_next_one() -> None:
    sessions = cache()
    session_id = opened(sessions, 0)
    for wrong in (2, 5):
        asked = request(session_id=session_id, epoch=wrong)
        assert refusal(sessions, asked) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    sessions.begin(request(session_id=session_id, epoch=1), False, 0)
    # The same request again: its answer was lost, and nobody knows what it said.
    asked = request(session_id=session_id, epoch=1)
    assert refusal(sessions, asked) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_an_unknown_session_gets_its_error() -> None:
    asked = request(session_id=4711, epoch=1)
    assert refusal(cache(), asked) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_names_and_topic_ids_do_not_mix() -> None:
    sessions = cache()
    session_id = opened(sessions, 0)
    for asked in (
        request(0, session_id=session_id, epoch=1, topic_id=TOPIC_ID),
        request(session_id=session_id, epoch=1, forget=(0,), topic_id=TOPIC_ID),
        # Its version alone says that it would name them by their ids.
        request(session_id=session_id, epoch=1),
    ):
        refused = refusal(sessions, asked, topic_ids=True)
        assert refused is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_session_without_partitions_is_closed() -> None:
    sessions = cache()
    session_id = opened(sessions, 0, 0)
    context = sessions.begin(request(session_id=session_id, epoch=1, forget=(0,)), False, 0)
    assert numbers(context) == [1]
    context = sessions.begin(request(session_id=session_id, epoch=2, forget=(1,)), False, 0)
    assert context.session is None
    assert len(sessions) == 0


def test_epochs_skip_zero_for_ever() -> None:
    assert next_epoch(0) == 1
    assert next_epoch(0x7FFFFFFF) == 1
    assert next_epoch(-1) == -1


def test_without_room_the_client_is_served_without_a_session() -> None:
    sessions = cache(slots=1)
    opened(sessions, 0)
    context = sessions.begin(request(0, 0), False, 10)
    assert context.session is None
    assert numbers(context) == [0, 1]
    assert cache(slots=0).begin(request(0), False, 0).session is None


def test_a_session_that_nobody_uses_makes_room() -> None:
    sessions = cache(slots=1)
    old = opened(sessions, 0)
    opened(sessions, 0, now_ms=EVICTION_MS + 1)
    asked = request(session_id=old, epoch=1)
    assert refusal(sessions, asked) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.evictions == 1


def test_a_bigger_session_displaces_a_smaller_one_that_is_old() -> None:
    sessions = cache(slots=1)
    old = opened(sessions, 0, 0)
    later = EVICTION_MS + 1
    sessions.begin(request(session_id=old, epoch=1), False, later)
    assert sessions.begin(request(0), False, later).session is None
    assert sessions.begin(request(0, 0, 0), False, later).session is not None


def test_a_follower_displaces_a_consumer_at_once() -> None:
    sessions = cache(slots=1)
    opened(sessions, 0, 0, 0)
    follower = sessions.begin(request(0), True, 1)
    assert follower.session is not None
    assert sessions.begin(request(0, 0, 0, 0), True, 2).session is None
    assert sessions.begin(request(0, 0, 0, 0), False, 3).session is None


def test_without_room_for_its_partitions_the_client_is_served_without_a_session() -> None:
    """Each takes some 400 bytes, for as long as the session is there."""
    sessions = cache(partitions_max=5)
    silent = opened(sessions, 0, 0, 0)
    assert sessions.begin(request(0, 0, 0), False, 10).session is None
    opened(sessions, 0, 0, now_ms=20)
    # Whoever closes its session makes room, and so does one that is unused for long.
    sessions.begin(request(session_id=silent, epoch=-1), False, 30)
    third = opened(sessions, 0, 0, 0, now_ms=40)
    assert sessions.begin(request(0, 0, 0), False, EVICTION_MS + 100).session is not None
    assert refusal(sessions, request(session_id=third, epoch=1)) is (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )


def test_a_session_that_has_no_room_to_grow_ends() -> None:
    """Its client begins again with all of its partitions, and is served without a session."""
    sessions = cache(partitions_max=5)
    opened(sessions, 0, 0)
    growing = opened(sessions, 0, 0)
    grown = sessions.begin(request(-1, -1, 0, session_id=growing, epoch=1), False, 10)
    assert numbers(grown) == [0, 1, 2]
    asked = request(-1, -1, -1, 0, session_id=growing, epoch=2)
    assert refusal(sessions, asked) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 1
    assert sessions.begin(request(0, 0, 0), False, 20).session is not None


def test_what_a_session_gives_up_is_room_for_others() -> None:
    sessions = cache(partitions_max=5)
    shrinking = opened(sessions, 0, 0, 0, 0)
    sessions.begin(request(session_id=shrinking, epoch=1, forget=(0, 1, 9)), False, 10)
    assert sessions.begin(request(0, 0, 0), False, 20).session is not None
    assert sessions.begin(request(0), False, 30).session is None


def test_no_session_is_larger_than_a_request_may_be() -> None:
    sessions = cache(largest=3)
    assert sessions.begin(request(0, 0, 0, 0), False, 0).session is None
    growing = opened(sessions, 0, 0, 0)
    asked = request(-1, -1, -1, 0, session_id=growing, epoch=1)
    assert refusal(sessions, asked) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_follower_that_gets_no_room_displaces_nobody() -> None:
    sessions = cache(partitions_max=5)
    assert sessions.begin(request(0, 0, 0), True, 0).session is not None
    consumers = [opened(sessions, 0) for _ in range(2)]
    assert sessions.begin(request(0, 0, 0), True, 1).session is None
    assert sessions.evictions == 0
    for session_id in consumers:
        assert sessions.begin(request(session_id=session_id, epoch=1), False, 2).session is not None


def test_a_follower_displaces_consumers_that_hold_the_room() -> None:
    sessions = cache(partitions_max=5)
    opened(sessions, 0, 0)
    opened(sessions, 0, 0, 0)
    follower = sessions.begin(request(0, 0, 0), True, 1)
    assert follower.session is not None
    assert sessions.evictions == 1
    assert sessions.begin(request(0, 0, 0), True, 2).session is None
