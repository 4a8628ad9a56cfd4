"""The followers' replication quota (KIP-73), and consumers that wait at a follower (KIP-392)."""

import asyncio

from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.replication.metadata.metadata_records import ConfigRecord
from tierlog.replication.partition.fetch_data import FetchParams, FetchPartition

from .served_leader import (
    PARTITIONS,
    TOPIC_ID,
    FollowingNode,
    ServedLeader,
    created,
    two_nodes,
    until,
)


def throttled(*nodes: ServedLeader | FollowingNode, replicas: str) -> None:
    name = "follower.replication.throttled.replicas"
    for node in nodes:
        node.publish(ConfigRecord(resource_type=2, resource_name="t", name=name, value=replicas))


async def test_a_throttled_partition_is_left_out_and_others_are_not() -> None:
    async with two_nodes() as (leader, follower):
        # One byte a second: once something has come, the quota is exceeded for this whole story.
        follower.throttle.quota.bytes_per_second = 1
        for node in (leader, follower):
            node.publish(*created(isr=(1,)))
        throttled(leader, follower, replicas="0:2")
        loop = asyncio.get_running_loop()
        follower.throttle.quota.record(1_000_000, loop.time())
        for partition in range(PARTITIONS):
            leader.append(b"a" * 100, partition=partition)
        await until(lambda: all(follower.log(each).log_end_offset == 1 for each in (1, 2)))
        leader.append(b"b" * 100, partition=1)
        await until(lambda: follower.log(1).log_end_offset == 2)
        assert follower.log(0).log_end_offset == 0
        named = {
            each.partition
            for fetch in leader.fetches[-2:]
            for topic in fetch.topics
            for each in topic.partitions
        }
        assert 0 not in named
        # A higher limit counts soon, and what comes is counted.
        before = follower.replicated_bytes
        follower.throttle.quota.bytes_per_second = 10_000_000
        await until(lambda: follower.log(0).log_end_offset == 1)
        assert follower.replicated_bytes > before
        # Now it is in sync, and the quota does not concern it any more.
        await until(lambda: leader.log(0).high_watermark == 1)
        follower.throttle.quota.bytes_per_second = 1
        leader.append(b"c" * 100)
        await until(lambda: follower.log(0).log_end_offset == 2)


async def test_a_consumer_at_a_follower_is_answered_when_the_leader_has_a_new_high_watermark() -> (
    None
):
    async with two_nodes() as (leader, follower):
        for node in (leader, follower):
            node.publish(*created())
        leader.append(b"a")
        await until(lambda: follower.log().high_watermark == 1)
        params = FetchParams(max_wait_ms=60_000, rack="", listener="PLAINTEXT")
        asked = FetchPartition(TopicIdPartition(TOPIC_ID, "t", 0), 1, 1 << 20)
        waits = follower.replicas.leader_fetch.fetch(params, [asked])
        assert isinstance(waits, asyncio.Future)
        leader.append(b"b")
        (result,) = await waits
        assert (result.error_code, result.high_watermark) == (0, 2)
        assert result.records
