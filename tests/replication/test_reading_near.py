"""Three replicas in three racks: the leader sends consumers to one near them (KIP-392)."""

import asyncio

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.fetch import PartitionData
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.replication.leader.replica_manager import ReplicaParts
from tierlog.replication.leader.replica_selection import RackAwareSelection
from tierlog.replication.metadata.metadata_records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from tierlog.replication.partition.fetch_data import FetchParams, FetchPartition, FetchResults
from tierlog.tests.simulation.loop import SimulatedLoop

from .broker_node import values_in
from .three_replicas import LEADER, SECOND, T0, THIRD, TOPIC_ID, Leader, one_leader

RACKS = {LEADER: "a", SECOND: "b", THIRD: "c"}


def near(leader: Leader) -> ReplicaParts:
    """The leader chooses by the racks."""
    return ReplicaParts(selection=RackAwareSelection(lambda each: leader.image.brokers.get(each)))


def with_racks(leader: Leader) -> None:
    """The brokers are in racks, and serve clients."""
    leader.publish(*(registered(each, "clients") for each in RACKS))


def registered(broker_id: int, listener: str) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        broker_epoch=10 * broker_id,
        fenced=False,
        rack=RACKS[broker_id],
        end_points=[BrokerEndpoint(name=listener, host="h", port=9092, security_protocol=0)],
    )


def ask(
    leader: Leader, rack: str | None, offset: int = 0, wait_ms: int = 0
) -> "FetchResults | asyncio.Future[FetchResults]":
    params = FetchParams(max_wait_ms=wait_ms, rack=rack, listener="clients")
    asked = FetchPartition(TopicIdPartition(TOPIC_ID, "t", 0), offset, 1 << 20)
    return leader.replicas.leader_fetch.fetch(params, [asked])


def read(leader: Leader, rack: str | None, offset: int = 0) -> PartitionData:
    results = ask(leader, rack, offset, 60_000 if rack not in (None, "", "a") else 0)
    assert isinstance(results, list)
    return results[0]


def replicated(leader: Leader, *values: bytes) -> None:
    """Three replicas have these records and know that they are committed."""
    leader.append(*values, acks=1)
    end = leader.replicas.partition(T0).log.log_end_offset
    for _ in range(2):
        for each in (SECOND, THIRD):
            leader.follow(each, end)


@pytest.mark.parametrize(("rack", "replica"), [("b", SECOND), ("c", THIRD)])
async def test_a_consumer_is_sent_to_the_replica_in_its_rack(
    loop: SimulatedLoop, rack: str, replica: int
) -> None:
    async with one_leader(loop, near) as leader:
        with_racks(leader)
        replicated(leader, b"x", b"y")
        result = read(leader, rack, 1)
        # It is told at once, also where there would be nothing to read.
        assert read(leader, rack, 2).preferred_read_replica == replica
        assert (result.error_code, result.preferred_read_replica) == (0, replica)
        assert not result.records
        assert result.aborted_transactions is None
        assert (result.high_watermark, result.last_stable_offset, result.log_start_offset) == (
            (2, 2, 0)
        )


@pytest.mark.parametrize("rack", [None, "", "a", "d"])
async def test_others_read_from_the_leader(loop: SimulatedLoop, rack: str | None) -> None:
    async with one_leader(loop, near) as leader:
        with_racks(leader)
        replicated(leader, b"x")
        results = ask(leader, rack)
        assert isinstance(results, list)
        assert values_in(results[0]) == [b"x"]
        assert results[0].preferred_read_replica == -1


async def test_without_a_selector_racks_do_not_matter(leader: Leader) -> None:
    leader.publish(*(registered(each, "clients") for each in RACKS))
    replicated(leader, b"x")
    assert values_in(read(leader, "b")) == [b"x"]


async def test_only_replicas_that_can_serve_the_offset_are_candidates(loop: SimulatedLoop) -> None:
    async with one_leader(loop, near) as leader:
        with_racks(leader)
        replicated(leader, b"x", b"y")
        leader.append(b"z", acks=1)
        # The leader knows of two records there: an offset beyond is the leader's own to serve.
        assert ask(leader, "b", 2) is not None
        assert read(leader, "b", 2).preferred_read_replica == SECOND
        beyond = ask(leader, "b", 3)
        assert isinstance(beyond, list)
        assert beyond[0].preferred_read_replica == -1
        leader.follow(SECOND, 3, log_start=2)
        assert read(leader, "b", 2).preferred_read_replica == SECOND
        assert values_in(read(leader, "b", 0)) == [b"x", b"y"]
        # Outside of the ISR a replica may stay behind for ever.
        leader.change(isr=[LEADER, THIRD])
        assert values_in(read(leader, "b", 0)) == [b"x", b"y"]
        assert read(leader, "c", 0).preferred_read_replica == THIRD


async def test_a_fenced_broker_or_one_without_the_listener_is_no_candidate(
    loop: SimulatedLoop,
) -> None:
    async with one_leader(loop, near) as leader:
        with_racks(leader)
        replicated(leader, b"x")
        leader.publish(BrokerRegistrationChangeRecord(broker_id=SECOND, broker_epoch=20, fenced=1))
        assert values_in(read(leader, "b")) == [b"x"]
        leader.publish(registered(THIRD, "others"))
        assert values_in(read(leader, "c")) == [b"x"]


async def test_a_follower_serves_consumers_up_to_its_high_watermark(loop: SimulatedLoop) -> None:
    async with one_leader(loop, near) as leader:
        replicated(leader, b"x", b"y")
        leader.append(b"z", acks=1)
        leader.change(leader=SECOND)
        assert values_in(read(leader, "b")) == [b"x", b"y"]
        # Between its high watermark and its end it has nothing to say yet, beyond it an error.
        for offset, error in ((2, 0), (3, 0), (4, ErrorCode.OFFSET_OUT_OF_RANGE)):
            results = ask(leader, "", offset)
            assert isinstance(results, list)
            assert (results[0].error_code, not results[0].records) == (error, True)
        # Clients that tell no rack, and followers, need the leader.
        assert read(leader, None).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert leader.follow(THIRD, 0, epoch=1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_consumer_of_a_follower_waits_for_its_high_watermark(loop: SimulatedLoop) -> None:
    async with one_leader(loop, near) as leader:
        replicated(leader, b"x")
        leader.append(b"y", acks=1)
        leader.change(leader=SECOND)
        partition = leader.replicas.partition(T0)
        waits = ask(leader, "b", 1, 30_000)
        beyond = ask(leader, "b", 2, 30_000)
        assert isinstance(waits, asyncio.Future)
        assert isinstance(beyond, asyncio.Future)
        await asyncio.sleep(1)
        assert not waits.done()
        # As a fetcher does when the leader's response tells of a new one.
        partition.log.update_high_watermark(2)
        leader.replicas.on_high_watermark(T0)
        (result,) = await waits
        assert values_in(result) == [b"y"]
        assert not beyond.done()
        # A new leader, here or elsewhere, is another reason to answer.
        leader.change(leader=LEADER)
        (result,) = await beyond
        assert (result.error_code, not result.records) == (0, True)
