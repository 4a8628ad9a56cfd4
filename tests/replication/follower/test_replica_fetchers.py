"""Fetchers over real sockets, from a real leader: they copy its logs, whatever happens between."""

import asyncio
import logging

import pytest

from tierlog.broker.request.fetch_session import FetchSessionCache
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.schema import Message
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.replication.follower.replica_fetchers import FollowedReplica
from tierlog.replication.partition.fetch_data import FetchParams, FetchPartition
from tierlog.storage.log.aux_state import AuxState
from tierlog.storage.log.leader_epoch import EpochEntry

from .served_leader import (
    PARTITIONS,
    REMOVED,
    TOPIC_ID,
    FollowingNode,
    ServedLeader,
    created,
    isr_of,
    led_by,
    two_nodes,
    until,
)

NAMES = [TopicIdPartition(TOPIC_ID, "t", each) for each in range(PARTITIONS)]


def both(leader: ServedLeader, follower: FollowingNode, *records: Message) -> None:
    for node in (leader, follower):
        node.publish(*records)


def is_same(leader: ServedLeader, follower: FollowingNode, partition: int = 0) -> bool:
    """Whether the follower has all of the log, and knows that it is committed."""
    ours, its = follower.log(partition), leader.log(partition)
    return (
        ours.log_end_offset == its.log_end_offset
        and ours.high_watermark == its.high_watermark == its.log_end_offset
        and follower.content(partition) == leader.content(partition)
    )


async def test_a_follower_copies_the_log_and_moves_the_high_watermark_of_both() -> None:
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        for partition in range(PARTITIONS):
            leader.append(b"a", b"b", partition=partition)
        assert leader.log().high_watermark == 0
        await until(lambda: all(is_same(leader, follower, each) for each in range(PARTITIONS)))
        assert follower.log().high_watermark == 2
        # Of the three partitions of the session, only the one with news is named.
        before = len(leader.fetches)
        leader.append(b"c", partition=1)
        await until(lambda: is_same(leader, follower, 1))
        later = leader.fetches[before + 1 :]
        named = {
            each.partition for fetch in later for topic in fetch.topics for each in topic.partitions
        }
        assert named <= {1}
        first = leader.fetches[0]
        assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (2, 20)
        assert leader.server.connections == 1


async def test_a_cut_connection_delays_and_loses_nothing() -> None:
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        for round_number in range(5):
            leader.cuts_next = True
            leader.append(b"%d" % round_number)
            await until(lambda: is_same(leader, follower))
        assert leader.server.connections > 1


async def test_what_is_published_during_a_stop_is_followed_no_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The simulation of whole clusters showed a publication that failed (seed 518)."""
    async with two_nodes() as (leader, follower):
        await follower.fetchers.stop()
        both(leader, follower, *created())
        assert not follower.fetchers.fetchers
        assert not [each for each in caplog.records if each.levelname == "ERROR"]


async def test_who_reads_from_a_follower_hears_that_its_log_was_truncated() -> None:
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        leader.append(b"a")
        await until(lambda: is_same(leader, follower))
        both(leader, follower, *led_by(2, 0))
        follower.append(b"of this one alone")
        both(leader, follower, *led_by(1, 0))
        params = FetchParams(max_wait_ms=60_000, rack="")
        waits = follower.replicas.leader_fetch.fetch(params, [FetchPartition(NAMES[0], 2, 100)])
        assert isinstance(waits, asyncio.Future)
        assert not waits.done()
        await until(lambda: follower.log().log_end_offset == 1)
        (result,) = waits.result()
        assert result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("jump_ms", [-3_600_000, 3_600_000])
async def test_a_clock_that_is_set_stops_no_follower(jump_ms: int) -> None:
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        leader.append(b"a")
        await until(lambda: is_same(leader, follower))
        follower.leader = None
        leader.cuts_next = True
        (fetcher,) = follower.fetchers.fetchers
        partition = fetcher.followed.get(NAMES[0])
        assert partition is not None
        await until(lambda: "not registered" in partition.trouble)
        follower.environment.ahead_ms = jump_ms
        follower.leader = leader
        leader.append(b"b")
        await until(lambda: is_same(leader, follower))


async def test_a_damaged_log_is_copied_again_once_its_replica_is_not_in_sync(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        leader.append(b"a")
        leader.append(b"b")
        leader.append(b"c")
        await until(lambda: is_same(leader, follower))
        log = follower.log()
        # As recovery does after a restart.
        log.damaged_from = 1
        both(leader, follower, isr_of(0, 1, 2))
        assert log.log_end_offset == 3
        # A fetch could bring it into the ISR again just before its log is truncated.
        assert follower.fetchers.leader_of(NAMES[0]) is None
        params = FetchParams(max_wait_ms=60_000, rack="")
        waits = follower.replicas.leader_fetch.fetch(params, [FetchPartition(NAMES[0], 3, 100)])
        assert isinstance(waits, asyncio.Future)
        both(leader, follower, isr_of(0, 1))
        assert log.log_end_offset == 1
        (result,) = waits.result()
        assert result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        leader.append(b"d")
        await until(lambda: is_same(leader, follower))
        assert "at offset 1, where it is damaged: offsets 1 to 2 " in caplog.text


async def test_damage_that_was_truncated_for_another_reason_is_forgotten() -> None:
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        leader.append(b"a")
        leader.append(b"b")
        await until(lambda: is_same(leader, follower))
        log = follower.log()
        log.damaged_from = 1
        log.truncate_to(1)
        assert log.damaged_from is None


async def test_a_session_that_the_leader_has_lost_begins_anew() -> None:
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        leader.append(b"a")
        await until(lambda: is_same(leader, follower))
        leader.sessions = FetchSessionCache(10, leader.environment.random)
        leader.append(b"b")
        await until(lambda: is_same(leader, follower))
        assert leader.server.connections == 1


async def test_a_leader_without_an_address_is_fetched_from_once_it_has_one() -> None:
    async with two_nodes() as (leader, follower):
        follower.leader = None
        both(leader, follower, *created())
        leader.append(b"a")
        (fetcher,) = follower.fetchers.fetchers
        partition = fetcher.followed.get(NAMES[0])
        assert partition is not None
        await until(lambda: "not registered" in partition.trouble)
        follower.leader = leader
        await until(lambda: is_same(leader, follower))


async def test_what_a_deposed_leader_alone_had_is_cut() -> None:
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        leader.append(b"common")
        await until(lambda: is_same(leader, follower))
        # The follower leads for a while, and is alone with what it gets.
        both(leader, follower, *led_by(2, 0))
        assert follower.fetchers.leader_of(NAMES[0]) is None
        follower.append(b"only", b"here")
        both(leader, follower, *led_by(1, 0))
        leader.append(b"instead")
        assert follower.content() != leader.content()
        await until(lambda: is_same(leader, follower))
        assert follower.log().log_end_offset == 2


async def test_a_follower_that_was_cut_learns_the_high_watermark_without_news() -> None:
    """The simulation of whole clusters showed a high watermark that stayed behind (seed 1576)."""
    async with two_nodes() as (leader, follower):
        # The follower leads at first, and the other has only the first of its two records.
        both(leader, follower, *created(leader=2))
        follower.append(b"common")
        leader.log().append_as_follower(memoryview(follower.content()), 0)
        follower.append(b"only here")
        # Both records are still uncommitted there; the next leader commits the first.
        assert follower.log().high_watermark == 0
        both(leader, follower, isr_of(0, 1), *led_by(1, 0))
        await until(lambda: leader.log().high_watermark == 1)
        await until(lambda: is_same(leader, follower))


async def test_a_late_response_does_not_touch_a_log_that_is_followed_no_longer() -> None:
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        leader.held = held = asyncio.Event()
        leader.append(b"late")
        await until(lambda: leader.held_responses > 0)
        follower.fetchers.leave(NAMES[:2])
        log = follower.log(0)
        leader.held = None
        held.set()
        leader.append(b"x", partition=2)
        await until(lambda: is_same(leader, follower, 2))
        assert log.log_end_offset == 0
        # The leader's session has them no longer.
        forgotten = [topic for each in leader.fetches for topic in each.forgotten_topics_data]
        assert sorted(forgotten[0].partitions) == [0, 1]
        # It is followed again, from where it stands.
        replica = FollowedReplica(NAMES[0], log, 1, 0)
        follower.fetchers.follow([replica])
        await until(lambda: is_same(leader, follower))


async def test_a_deleted_topic_ends_its_fetchers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        leader.append(b"a")
        await until(lambda: is_same(leader, follower))
        follower.publish(REMOVED)
        assert follower.fetchers.fetchers == []
        assert not follower.replicas.partitions
    removals = [each for each in caplog.messages if "Removed fetcher" in each]
    assert removals == [
        "[ReplicaFetcherManager on broker 2] Removed fetcher for partitions Set(t-0, t-1, t-2)"
    ]


async def test_a_change_of_the_isr_interrupts_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        leader.append(b"a")
        await until(lambda: is_same(leader, follower))
        both(leader, follower, isr_of(0, 1))
        both(leader, follower, isr_of(0, 1, 2))
        leader.append(b"b")
        await until(lambda: is_same(leader, follower))
        assert leader.server.connections == 1
    added = [each for each in caplog.messages if "Added fetcher" in each]
    assert len(added) == 1
    assert "on broker 2] Added fetcher to broker 1 for partitions HashMap(t-0 -> " in added[0]


async def test_a_partition_without_a_leader_is_not_fetched() -> None:
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        both(leader, follower, *led_by(-1, 0))
        assert follower.fetchers.leader_of(NAMES[0]) is None
        assert follower.fetchers.leader_of(NAMES[1]) == 1
        both(leader, follower, *led_by(1, 0))
        leader.append(b"a")
        await until(lambda: is_same(leader, follower))


async def test_a_failed_log_directory_ends_the_fetching() -> None:
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        leader.append(b"a")
        await until(lambda: is_same(leader, follower))
        follower.replicas.on_log_dir_failure(follower.log().log_dir)
        assert follower.fetchers.fetchers == []
        # No later image brings it back.
        both(leader, follower, *led_by(-1, 0))
        both(leader, follower, *led_by(1, 0))
        assert follower.fetchers.fetchers == []


async def test_several_fetchers_share_the_partitions_of_a_leader() -> None:
    async with two_nodes(fetchers_per_leader=2) as (leader, follower):
        both(leader, follower, *created())
        for partition in range(PARTITIONS):
            leader.append(b"a", partition=partition)
        await until(lambda: all(is_same(leader, follower, each) for each in range(PARTITIONS)))
        assert len(follower.fetchers.fetchers) == 2
        assert leader.server.connections == 2


async def test_a_large_log_is_fetched_in_many_responses() -> None:
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        for partition in range(PARTITIONS):
            for _ in range(8):
                leader.append(b"x" * 400_000, partition=partition)
        assert follower.fetchers.max_lag == 0
        await until(lambda: all(is_same(leader, follower, each) for each in range(PARTITIONS)))
        assert follower.fetchers.failed_count == 0


def begins_after_the_tier(leader: ServedLeader, follower: FollowingNode, *partitions: int) -> None:
    """The first 5 records of these partitions are in the tier only, and 1 is not."""
    for node in (leader, follower):
        node.tier()
    for each in partitions:
        state = AuxState(5, 0, [EpochEntry(0, 0)], None)
        leader.log(each).start_at(state)
        leader.append(b"local", partition=each)


async def test_a_slow_tier_delays_no_partition_that_does_not_need_it() -> None:
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        begins_after_the_tier(leader, follower, 0)
        held = follower.held = asyncio.Event()
        follower.tier_states[0] = AuxState(5, 0, [EpochEntry(0, 0)], None)
        await until(lambda: len(follower.tier_requests) == 1)
        request = follower.tier_requests[0]
        assert (request.epoch, request.offset, request.is_tiered) == (0, 4, True)
        leader.append(b"a", partition=1)
        await until(lambda: is_same(leader, follower, 1))
        # A lost response of the leader does not make the follower read the tier again.
        leader.cuts_next = True
        leader.append(b"b", partition=1)
        await until(lambda: is_same(leader, follower, 1))
        held.set()
        await until(lambda: is_same(leader, follower))
        assert len(follower.tier_requests) == 1
        assert follower.log().local_log_start_offset == 5
        assert follower.log().log_start_offset == 0


async def test_what_the_tier_lacks_is_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        begins_after_the_tier(leader, follower, 0, 1)
        await until(lambda: len(follower.tier_requests) >= 6)
        assert follower.log().bounds.log_end == 0
        for each in (0, 1):
            follower.tier_states[each] = AuxState(5, 0, [EpochEntry(0, 0)], None)
        await until(lambda: is_same(leader, follower) and is_same(leader, follower, 1))
    waits = [each.message for each in caplog.records if "waits for the remote tier" in each.message]
    assert [each.rpartition("Partition ")[2] for each in sorted(waits)] == [
        f"t-{each} waits for the remote tier: The tier lacks it." for each in (0, 1)
    ]


async def test_a_change_of_leader_ends_what_is_read_from_the_tier() -> None:
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        begins_after_the_tier(leader, follower, 0)
        held = follower.held = asyncio.Event()
        follower.tier_states[0] = AuxState(5, 0, [EpochEntry(0, 0)], None)
        await until(lambda: len(follower.tier_requests) == 1)
        follower.publish(*led_by(2, 0))
        held.set()
        for _ in range(10):
            await asyncio.sleep(0.001)
        assert follower.log().log_end_offset == 0
        leader.publish(*led_by(2, 0))
        both(leader, follower, *led_by(1, 0))
        await until(lambda: is_same(leader, follower))
        assert len(follower.tier_requests) == 2


async def test_the_choice_of_the_first_offset_may_change_while_partitions_are_followed() -> None:
    async with two_nodes() as (leader, follower):
        both(leader, follower, *created())
        begins_after_the_tier(leader, follower, 0)
        leader.log().bounds.update_highest_remote(5)
        await until(lambda: len(follower.tier_requests) >= 1)
        assert follower.tier_requests[0].offset == 4
        follower.fetchers.fetch_last_tiered(True)
        await until(lambda: follower.tier_requests[-1].offset == 5)
        follower.tier_states[0] = AuxState(6, 0, [EpochEntry(0, 0)], None)
        await until(lambda: follower.log().log_end_offset == 6)
        assert follower.log().local_log_start_offset == 6
