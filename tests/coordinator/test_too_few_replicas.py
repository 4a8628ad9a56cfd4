"""A coordinator whose partition has fewer replicas in sync than `min.insync.replicas`.

Groups and offsets: what the coordinator writes is appended, and waits for the high watermark, which
does not move meanwhile (KIP-966). The client has to retry after
`offsets.commit.timeout.ms`, not at once: it would try for ever, as fast as the network allows.

Transactions: a write is refused at once, as a producer with acks=all would be.
"""

import asyncio
import logging

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.coordinator.consumer.consumer_heartbeat import ConsumerHeartbeat
from tierlog.coordinator.consumer.topic_partitions import NOTHING
from tierlog.coordinator.group.group_coordinator import GroupCoordinator
from tierlog.coordinator.group.group_shard import GroupShard
from tierlog.coordinator.group_actions import JoinResult, SyncRequest
from tierlog.coordinator.group_config import GroupCoordinatorConfig
from tierlog.coordinator.led_shards import LedShards, ShardLog, ShardState
from tierlog.coordinator.offsets import UNSTABLE_OFFSET, FetchTopic, OffsetsProducer
from tierlog.coordinator.offsets_log import Appended
from tierlog.coordinator.replicated_offsets_log import ReplicatedOffsetsLog
from tierlog.coordinator.shard_writer import LateWrite, LateWrites
from tierlog.replication.metadata.metadata_records import ConfigRecord
from tierlog.tests.async_tests import entered
from tierlog.tests.replication.broker_node import count_waiting
from tierlog.tests.replication.three_replicas import LEADER, SECOND, T0, THIRD, Leader, one_leader
from tierlog.tests.simulation.loop import SimulatedLoop

from .group.coordinated_groups import GROUP, commit_request, join_request, later
from .group_driver import committed

TIMEOUT_MS = 5_000
RETRIABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
ROUND_TRIP_S = 0.005


def offsets_log(leader: Leader, *, checks_min_isr: bool = False) -> ReplicatedOffsetsLog:
    return ReplicatedOffsetsLog(
        T0.topic, TIMEOUT_MS, leader.replicas, leader.logs, checks_min_isr=checks_min_isr
    )


def coordinator_of(leader: Leader) -> GroupCoordinator:
    """A coordinator of all groups, over a topic with one partition."""
    config = GroupCoordinatorConfig(
        offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0
    )
    coordinator = GroupCoordinator(config, leader.environment, offsets_log(leader))
    leader.replicas.listen(T0.topic, coordinator)
    return coordinator


def end_of(leader: Leader) -> int:
    return leader.replicas.partition(T0).log.log_end_offset


def catch_up(leader: Leader) -> None:
    """Both followers have all that the leader has, and are in sync."""
    leader.change(isr=[LEADER, SECOND, THIRD])
    leader.follow(SECOND, end_of(leader))
    leader.follow(THIRD, end_of(leader))


async def commit(coordinator: GroupCoordinator, offset: int) -> list[ErrorCode]:
    return await later(committed(coordinator, commit_request(offset)))


async def seen(coordinator: GroupCoordinator) -> int:
    """The committed offset that a client is shown."""
    asked = [FetchTopic("topic", ZERO_UUID, [0])]
    error, topics = await later(coordinator.fetch_offsets(GROUP, asked, False))
    assert not error
    return topics[0].partitions[0][1].offset


async def joined_and_synced(coordinator: GroupCoordinator, member_id: str) -> ErrorCode:
    """What a member is told that joins and then syncs."""
    request = join_request("anna")._replace(member_id=member_id)
    joined: JoinResult = await later(coordinator.join_group(request))
    await asyncio.sleep(ROUND_TRIP_S)
    if joined.error:
        return joined.error
    sync = SyncRequest(GROUP, member_id, None, joined.generation, "consumer", "range", {})
    return (await later(coordinator.sync_group(sync))).error


@pytest.fixture
def leader(loop: SimulatedLoop) -> Leader:
    return entered(one_leader(loop))


async def test_a_write_waits_for_enough_replicas_and_for_no_longer_than_its_timeout(
    leader: Leader,
) -> None:
    loop = asyncio.get_running_loop()
    leader.change(isr=[LEADER])
    began = loop.time()
    outcome = offsets_log(leader).append(0, build_batch([Record(0, 0, b"k", b"v", ())]))
    assert isinstance(outcome, asyncio.Future)
    assert (await outcome).error is ErrorCode.REQUEST_TIMED_OUT
    assert loop.time() - began == pytest.approx(TIMEOUT_MS / 1000, abs=0.1)
    second = offsets_log(leader).append(0, build_batch([Record(0, 0, b"k", b"v", ())]))
    assert isinstance(second, asyncio.Future)
    catch_up(leader)
    assert await second == Appended(ErrorCode.NONE, 1)


async def test_a_write_whose_broker_no_longer_leads_gets_not_leader(leader: Leader) -> None:
    leader.change(isr=[LEADER])
    outcome = offsets_log(leader).append(0, build_batch([Record(0, 0, b"k", b"v", ())]))
    assert isinstance(outcome, asyncio.Future)
    leader.change(leader=SECOND)
    assert (await outcome).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_transactions_write_is_refused_at_once(leader: Leader) -> None:
    """As `TransactionStateManager` does, which appends with acks=all."""
    leader.change(isr=[LEADER])
    log = offsets_log(leader, checks_min_isr=True)
    outcome = log.append(0, build_batch([Record(0, 0, b"k", b"v", ())]))
    assert outcome == Appended(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert end_of(leader) == 0


async def test_a_member_of_a_classic_group_tries_four_times_in_fifteen_seconds(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tierlog.coordinator")
    async with one_leader(loop) as leader:
        coordinator = coordinator_of(leader)
        leader.change(isr=[LEADER])
        tries, until = 0, loop.time() + 15
        first = coordinator.join_group(join_request("anna"))
        assert isinstance(first, JoinResult)
        while loop.time() < until:
            tries += 1
            assert tries < 100, "Nothing slows the member down."
            assert await joined_and_synced(coordinator, first.member_id) is RETRIABLE
        assert tries <= 4
        catch_up(leader)
        synced = asyncio.ensure_future(joined_and_synced(coordinator, first.member_id))
        await asyncio.sleep(0.1)
        catch_up(leader)
        assert await synced is ErrorCode.NONE
        coordinator.stop()
    messages = [each.getMessage() for each in caplog.records]
    assert messages == [
        "The groups of __consumer_offsets-0 cannot be written: REQUEST_TIMED_OUT. Clients have "
        "to retry.",
        "The groups of __consumer_offsets-0 can be written again.",
    ]


async def test_a_member_of_a_consumer_group_gets_the_error_after_the_same_time(
    leader: Leader,
) -> None:
    loop = asyncio.get_running_loop()
    coordinator = coordinator_of(leader)
    leader.change(isr=[LEADER])
    heartbeat = ConsumerHeartbeat(
        GROUP,
        "anna",
        0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("red",),
        owned=NOTHING,
    )
    for _ in range(2):
        began = loop.time()
        answer = await later(coordinator.consumer_group_heartbeat(heartbeat, True))
        assert isinstance(answer, KafkaError)
        assert answer.code is RETRIABLE
        assert loop.time() - began == pytest.approx(TIMEOUT_MS / 1000, abs=0.1)
    catch_up(leader)
    await asyncio.sleep(0.1)
    joined = asyncio.ensure_future(later(coordinator.consumer_group_heartbeat(heartbeat, True)))
    await asyncio.sleep(0.1)
    catch_up(leader)
    assert not isinstance(await joined, KafkaError)
    coordinator.stop()


async def test_a_commit_that_came_too_late_is_seen_once_the_replicas_have_it(
    leader: Leader,
) -> None:
    """Its client got a retriable error. No reader may see an offset that may be lost."""
    coordinator = coordinator_of(leader)
    leader.change(isr=[LEADER])
    assert await commit(coordinator, 41) == [RETRIABLE]
    assert await commit(coordinator, 42) == [RETRIABLE]
    assert await seen(coordinator) == -1
    catch_up(leader)
    await asyncio.sleep(0.01)
    assert await seen(coordinator) == 42
    leader.change(isr=[LEADER])
    assert await commit(coordinator, 43) == [RETRIABLE]
    newest = asyncio.ensure_future(commit(coordinator, 44))
    await asyncio.sleep(0)
    catch_up(leader)
    assert await newest == [ErrorCode.NONE]
    assert await seen(coordinator) == 44, "The late commit is the older one."
    coordinator.stop()


async def test_a_commit_behind_a_late_deletion_brings_its_group_back(leader: Leader) -> None:
    """Both are in the log in this order: the next load has the group, too."""
    coordinator = coordinator_of(leader)
    first = asyncio.ensure_future(commit(coordinator, 41))
    await asyncio.sleep(0.01)
    catch_up(leader)
    assert await first == [ErrorCode.NONE]
    leader.change(isr=[LEADER])
    assert await later(coordinator.delete_group(GROUP)) is RETRIABLE
    second = asyncio.ensure_future(commit(coordinator, 42))
    await asyncio.sleep(0.01)
    catch_up(leader)
    assert await second == [ErrorCode.NONE]
    assert await seen(coordinator) == 42
    error, described = coordinator.describe_group(GROUP)
    assert (error, described.state) == (ErrorCode.NONE, "Empty")
    coordinator.stop()


async def test_a_commit_that_waits_for_nobody_takes_effect_behind_those_before_it(
    leader: Leader,
) -> None:
    """The high watermark has passed the first one, whose outcome is told in a later turn."""
    minimum = ConfigRecord(
        resource_type=2, resource_name=T0.topic, name="min.insync.replicas", value="1"
    )
    leader.publish(minimum)
    coordinator = coordinator_of(leader)
    await asyncio.sleep(0.1)
    first = asyncio.ensure_future(commit(coordinator, 41))
    await asyncio.sleep(0.01)
    leader.change(isr=[LEADER])
    assert leader.high_watermark == 1
    second = asyncio.ensure_future(commit(coordinator, 42))
    assert [*await asyncio.gather(first, second)] == [[ErrorCode.NONE]] * 2
    assert await seen(coordinator) == 42
    coordinator.stop()


@pytest.mark.parametrize("leads_again", [False, True])
async def test_a_load_that_waits_for_its_replicas_ends_with_the_leadership(
    loop: SimulatedLoop, leads_again: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The wait is answered first, and its callback comes when another load has begun."""
    async with one_leader(loop) as leader:
        leader.change(isr=[LEADER])
        offsets_log(leader).append(0, build_batch([Record(0, 0, b"k", b"v", ())]))
        coordinator = coordinator_of(leader)
        await asyncio.sleep(0.1)
        assert [each.state for each in coordinator.shards()] == [ShardState.LOADING]
        leader.change(leader=SECOND)
        if leads_again:
            leader.change(leader=LEADER, isr=[LEADER, SECOND, THIRD])
            epoch = leader.replicas.partition(T0).leader_epoch
            leader.follow(SECOND, end_of(leader), epoch)
            leader.follow(THIRD, end_of(leader), epoch)
        await asyncio.sleep(0.1)
        states = [each.state for each in coordinator.shards()]
        assert states == ([ShardState.ACTIVE] if leads_again else [])
        coordinator.stop()
    assert "could not be loaded" not in caplog.text


@pytest.mark.parametrize(("is_commit", "shown"), [(True, 42), (False, -1)])
async def test_a_marker_ends_the_transaction_of_a_late_commit(
    leader: Leader, is_commit: bool, shown: int
) -> None:
    """What is replicated together with its marker was written before it."""
    coordinator = coordinator_of(leader)
    leader.change(isr=[LEADER])
    request = commit_request(42)._replace(producer=OffsetsProducer(7, 0))
    assert await later(committed(coordinator, request)) == [RETRIABLE]
    catch_up(leader)
    coordinator.transaction_ended(0, 7, is_commit)
    await asyncio.sleep(0.01)
    asked = [FetchTopic("topic", ZERO_UUID, [0])]
    error, topics = await later(coordinator.fetch_offsets(GROUP, asked, require_stable=True))
    assert not error
    answer = topics[0].partitions[0][1]
    assert (answer.offset, answer == UNSTABLE_OFFSET) == (shown, False)
    coordinator.stop()


async def test_a_late_commit_of_a_broker_that_no_longer_leads_is_forgotten(leader: Leader) -> None:
    coordinator = coordinator_of(leader)
    leader.change(isr=[LEADER])
    assert await later(committed(coordinator, commit_request(41))) == [RETRIABLE]
    leader.change(leader=SECOND)
    await asyncio.sleep(60)
    assert coordinator.shards() == []
    assert not any(count_waiting(leader.replicas).values())
    coordinator.stop()


@pytest.mark.parametrize("bounds", [{"writes_max": 2}, {"bytes_max": 20}])
async def test_the_oldest_of_too_many_late_writes_takes_effect_early(
    leader: Leader, bounds: dict[str, int]
) -> None:
    leader.change(isr=[LEADER])
    log = offsets_log(leader)
    shards = LedShards(
        ShardLog(log, "__consumer_offsets", "groups", 1_000),
        lambda partition, epoch: GroupShard(partition, epoch, GroupCoordinatorConfig()),
        lambda _: None,
        lambda _: None,
    )
    shards.on_elected(0, 0)
    shard = shards.get(0)
    assert shard is not None
    await asyncio.sleep(0)
    log.append(0, build_batch([Record(0, 0, b"k", b"v", ())] * 3))
    late, effects = LateWrites(log, shards, **bounds), list[int]()
    for offset in range(3):
        late.add(shard, LateWrite(offset, effects.append, nbytes=10))
    assert effects == [0]
    catch_up(leader)
    await asyncio.sleep(0.01)
    assert effects == [0, 1, 2]
    if "bytes_max" in bounds:
        late.add(shard, LateWrite(end_of(leader), effects.append, nbytes=21))
        assert effects[3:] == [end_of(leader)], "It is larger than the bound."
        assert late.newest(shard) == end_of(leader), "Answers wait for it all the same."
    late.close()
    shards.close()
