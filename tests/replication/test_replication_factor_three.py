"""A leader with two followers: who holds the high watermark back, and what acks=all waits for.

The followers are played by their fetches: a fetch at offset N says that a follower holds N records.
"""

import asyncio

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.fetch import LeaderIdAndEpoch
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.replication.leader.offset_lookup import OffsetQuery
from tierlog.replication.metadata.metadata_records import PartitionChangeRecord
from tierlog.replication.partition.append_data import AppendEntry
from tierlog.replication.partition.fetch_data import FetchParams, FetchPartition
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.tests.replication.broker_node import count_waiting

from .three_replicas import LEADER, SECOND, T0, THIRD, TOPIC_ID, Leader


async def settled(outcome: "list[AppendEntry] | asyncio.Future[list[AppendEntry]]") -> ErrorCode:
    assert isinstance(outcome, asyncio.Future)
    (result,) = await outcome
    return result.error


async def test_the_high_watermark_is_the_end_of_the_slowest_in_sync_replica(leader: Leader) -> None:
    assert isinstance(leader.append(b"a", b"b", b"c", acks=1), list)
    assert leader.high_watermark == 0
    leader.follow(SECOND, 3)
    assert leader.high_watermark == 0
    leader.follow(THIRD, 1)
    assert leader.high_watermark == 1
    leader.follow(THIRD, 3)
    assert leader.high_watermark == 3


async def test_acks_all_is_answered_when_every_in_sync_replica_has_the_records(
    leader: Leader,
) -> None:
    outcome = leader.append(b"a", b"b")
    assert isinstance(outcome, asyncio.Future)
    leader.follow(SECOND, 2)
    leader.follow(THIRD, 1)
    assert not outcome.done()
    leader.follow(THIRD, 2)
    assert await settled(outcome) is ErrorCode.NONE
    assert count_waiting(leader.replicas)["Produce"] == 0


async def test_acks_all_times_out_though_the_records_may_survive(leader: Leader) -> None:
    outcome = leader.append(b"a", timeout_ms=1_000)
    leader.follow(SECOND, 1)
    assert await settled(outcome) is ErrorCode.REQUEST_TIMED_OUT
    leader.follow(THIRD, 1)
    assert leader.high_watermark == 1


async def test_with_too_few_in_sync_replicas_nothing_is_appended(leader: Leader) -> None:
    leader.change(isr=[LEADER])
    outcome = leader.append(b"a")
    assert isinstance(outcome, list)
    assert outcome[0].error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert leader.replicas.partition(T0).log.log_end_offset == 0
    unsafe = leader.append(b"a", acks=1)
    assert isinstance(unsafe, list)
    assert unsafe[0].error is ErrorCode.NONE
    # Under min ISR the high watermark stays where it is (KIP-966).
    leader.follow(SECOND, 1)
    leader.follow(THIRD, 1)
    assert leader.high_watermark == 0


async def test_losing_the_replicas_after_the_append_is_reported(leader: Leader) -> None:
    first = leader.append(b"a")
    leader.follow(SECOND, 1)
    leader.follow(THIRD, 1)
    assert await settled(first) is ErrorCode.NONE
    second = leader.append(b"b", b"c", timeout_ms=500)
    leader.follow(SECOND, 2)
    leader.follow(THIRD, 3)
    leader.change(isr=[LEADER])
    leader.follow(SECOND, 3)
    # The high watermark can't pass the records while too few are in sync.
    assert await settled(second) is ErrorCode.REQUEST_TIMED_OUT


async def test_records_that_too_few_replicas_hold_after_the_append_are_distinguished(
    leader: Leader,
) -> None:
    leader.append(b"a", acks=1)
    leader.follow(SECOND, 1)
    leader.follow(THIRD, 1)
    partition = leader.replicas.partition(T0)
    assert partition.check_replicated(1) is ErrorCode.NONE
    assert partition.check_replicated(2) is None
    leader.change(isr=[LEADER])
    assert partition.check_replicated(1) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    leader.change(leader=SECOND)
    assert partition.check_replicated(1) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_deleting_records_waits_for_every_replica(leader: Leader) -> None:
    leader.append(b"a", b"b", acks=1)
    leader.follow(SECOND, 2)
    leader.follow(THIRD, 2)
    outcome = leader.replicas.delete_records([(T0, -1)], 5_000)
    assert isinstance(outcome, asyncio.Future)
    leader.follow(SECOND, 2, log_start=2)
    await asyncio.sleep(0.1)
    assert not outcome.done()
    leader.follow(THIRD, 2, log_start=2)
    (result,) = await outcome
    assert (result.error, result.low_watermark) == (ErrorCode.NONE, 2)
    late = leader.replicas.delete_records([(T0, -1)], 5_000)
    assert isinstance(late, list)


async def test_deleting_records_times_out_though_they_are_gone_from_the_leader(
    leader: Leader,
) -> None:
    leader.append(b"a", acks=1)
    leader.follow(SECOND, 1)
    leader.follow(THIRD, 1)
    outcome = leader.replicas.delete_records([(T0, 1)], 500)
    assert isinstance(outcome, asyncio.Future)
    (result,) = await outcome
    assert (result.error, result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert leader.replicas.partition(T0).log.log_start_offset == 1


async def test_a_caught_up_replica_outside_the_isr_holds_the_high_watermark_back(
    leader: Leader,
) -> None:
    leader.change(isr=[LEADER, SECOND])
    leader.follow(THIRD, 0)
    leader.append(b"a", acks=1)
    leader.follow(SECOND, 1)
    assert leader.high_watermark == 0
    await asyncio.sleep(31)
    leader.append(b"b", acks=1)
    leader.follow(SECOND, 2)
    # It has lagged for longer than replica.lag.time.max.ms: it doesn't count any more.
    assert leader.high_watermark == 2


async def test_a_new_leader_elsewhere_answers_everyone_who_waits(leader: Leader) -> None:
    produce = leader.append(b"a")
    leader.change(leader=SECOND)
    assert await settled(produce) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    refused = leader.append(b"b")
    assert isinstance(refused, list)
    assert refused[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused[0].current_leader == (SECOND, 1)
    fetched = leader.follow(THIRD, 0, epoch=1)
    assert fetched.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched.current_leader == LeaderIdAndEpoch(leader_id=SECOND, leader_epoch=1)


async def test_a_broker_without_a_replica_cannot_fetch_as_a_follower(leader: Leader) -> None:
    # Whoever knows the leader epoch may know of replicas that the leader does not know yet.
    assert leader.follow(9, 0, epoch=0).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    refused = leader.follow(9, 0, epoch=-1)
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not refused.records


async def test_a_consumer_sees_only_what_is_replicated_and_wakes_when_it_is(leader: Leader) -> None:
    leader.append(b"a", acks=1)
    asked = FetchPartition(TopicIdPartition(TOPIC_ID, "t", 0), 0, 1 << 20)
    outcome = leader.replicas.leader_fetch.fetch(FetchParams(max_wait_ms=10_000), [asked])
    assert isinstance(outcome, asyncio.Future)
    await asyncio.sleep(0.1)
    leader.follow(SECOND, 1)
    leader.follow(THIRD, 1)
    (result,) = await outcome
    assert result.high_watermark == 1
    assert result.records


async def test_a_new_leader_does_not_know_the_end_before_its_followers_have_fetched(
    leader: Leader,
) -> None:
    leader.append(b"a", acks=1)
    leader.change(leader=LEADER)
    query = [OffsetQuery(T0, -1)]
    isolation = FetchIsolation.HIGH_WATERMARK
    found = leader.replicas.list_offsets(query, isolation)
    assert isinstance(found, list)
    assert found[0].error is ErrorCode.OFFSET_NOT_AVAILABLE
    leader.follow(SECOND, 1, epoch=1)
    leader.follow(THIRD, 1, epoch=1)
    found = leader.replicas.list_offsets(query, isolation)
    assert isinstance(found, list)
    assert (found[0].error, found[0].offset) == (ErrorCode.NONE, 1)


async def test_a_timestamp_leads_to_no_record_that_is_not_replicated(leader: Leader) -> None:
    leader.append(b"a", acks=1)
    queries = [OffsetQuery(T0, 0), OffsetQuery(T0, -3)]
    for replicated, offset in ((0, -1), (1, 0)):
        leader.follow(SECOND, replicated)
        leader.follow(THIRD, replicated)
        found = leader.replicas.list_offsets(queries, FetchIsolation.HIGH_WATERMARK)
        assert isinstance(found, list)
        assert [each.offset for each in found] == [offset, offset]


async def test_a_replica_that_moves_away_takes_its_log_along(leader: Leader) -> None:
    record = PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC_ID, replicas=[2, 3], isr=[2, 3], leader=SECOND
    )
    leader.publish(record)
    refused = leader.append(b"a")
    assert isinstance(refused, list)
    assert refused[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not leader.replicas.partitions


async def test_the_answer_to_a_fetch_that_waited_tells_nothing_new_of_the_follower(
    leader: Leader,
) -> None:
    """Only its fetches do (`readFromPurgatory`): it was caught up when it asked."""
    replica = leader.replicas.partition(T0).follower(SECOND)
    assert replica is not None
    partition = TopicIdPartition(TOPIC_ID, "t", 0)
    params = FetchParams(SECOND, max_wait_ms=500, min_bytes=1, isolation=FetchIsolation.LOG_END)
    asked_ms = leader.environment.wall_clock_ms()
    asked = FetchPartition(partition, 0, 1 << 20, 0, log_start_offset=0)
    waiting = leader.replicas.leader_fetch.fetch(params, [asked])
    assert isinstance(waiting, asyncio.Future)
    await asyncio.sleep(0.3)
    leader.append(b"a", acks=1)
    (answer,) = await waiting
    assert answer.records
    leader.append(b"b", acks=1)
    leader.follow(SECOND, 1)
    assert replica.last_caught_up_ms == asked_ms
