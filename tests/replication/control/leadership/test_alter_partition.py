"""A leader asks for another ISR: which wishes are granted, and with what words others are refused.

The order of the errors is that of `ReplicationControlManager.validateAlterPartitionData`.
"""

from typing import NamedTuple

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.control.leadership.alter_partition import (
    AlterPartitionResult,
    IsrRequest,
    alter_partitions,
)
from tierlog.replication.control.leadership.partition_change import RECOVERED, RECOVERING
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage, PartitionImage
from tierlog.replication.metadata.metadata_records import (
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from tierlog.replication.metadata.replica_epoch import ReplicaEpoch

TOPIC_ID = Uuid(b"t" * 16)
EPOCH = 7
"""Leader epoch and partition epoch of `orders-0`."""


def broker(number: int, **changes: bool) -> RegisterBrokerRecord:
    """A broker whose epoch is ten times its id."""
    record = RegisterBrokerRecord(broker_id=number, broker_epoch=10 * number, fenced=False)
    for name, value in changes.items():
        setattr(record, name, value)
    return record


def cluster(*brokers: RegisterBrokerRecord, **changes: int | list[int]) -> ClusterImage:
    """Brokers 1 to 4, and `orders-0` on 1, 2 and 3, led by 1 with 2 in sync."""
    partition = PartitionRecord(
        partition_id=0,
        topic_id=TOPIC_ID,
        replicas=[1, 2, 3],
        isr=[1, 2],
        leader=1,
        leader_epoch=EPOCH,
        partition_epoch=EPOCH,
        directories=[Uuid(bytes([number]) * 16) for number in (1, 2, 3)],
    )
    for name, value in changes.items():
        setattr(partition, name, value)
    delta = ClusterDelta(ClusterImage("cluster"))
    delta.replay_all([broker(number) for number in (1, 2, 3, 4)])
    delta.replay_all(brokers)
    delta.replay_all([TopicRecord(name="orders", topic_id=TOPIC_ID), partition])
    return delta.apply(9, 1)


def wish(*isr: ReplicaEpoch | int) -> IsrRequest:
    members = [ReplicaEpoch(each) if isinstance(each, int) else each for each in isr]
    return IsrRequest(TOPIC_ID, 0, EPOCH, EPOCH, members)


def answer(image: ClusterImage, wanted: IsrRequest, sender: int = 1) -> AlterPartitionResult:
    decision = alter_partitions(image, ReplicaEpoch(sender, 10 * sender), [wanted])
    (result,) = decision.answer
    assert bool(decision.records) <= (result.error in (0, ErrorCode.NEW_LEADER_ELECTED))
    return result


def granted(image: ClusterImage, wanted: IsrRequest) -> PartitionImage:
    result = answer(image, wanted)
    assert result.error is ErrorCode.NONE
    assert result.state is not None
    return result.state


def test_a_replica_joins_and_another_leaves_in_the_same_leader_epoch() -> None:
    state = granted(cluster(), wish(1, 3))
    assert (state.leader, state.isr) == (1, (1, 3))
    assert (state.leader_epoch, state.partition_epoch) == (EPOCH, EPOCH + 1)


def test_who_wants_what_is_there_gets_the_present_state() -> None:
    image = cluster()
    assert granted(image, wish(1, 2)) == image.partition("orders", 0)
    assert not alter_partitions(image, ReplicaEpoch(1, 10), [wish(1, 2)]).records


@pytest.mark.parametrize("sender", [ReplicaEpoch(1, 9), ReplicaEpoch(1, 11), ReplicaEpoch(8, 80)])
def test_an_earlier_life_of_a_broker_is_not_heard(sender: ReplicaEpoch) -> None:
    with pytest.raises(KafkaError) as refused:
        alter_partitions(cluster(), sender, [wish(1, 2)])
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


class Refusal(NamedTuple):
    """A wish that has a flaw; the list is in the order in which flaws are looked for."""

    wanted: IsrRequest
    error: ErrorCode
    sender: int = 1


OK = wish(1, 2)

REFUSALS = [
    Refusal(OK._replace(topic_id=Uuid(b"x" * 16)), ErrorCode.UNKNOWN_TOPIC_ID),
    Refusal(OK._replace(partition=5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    Refusal(OK._replace(leader_epoch=EPOCH + 1), ErrorCode.NOT_CONTROLLER),
    Refusal(OK._replace(partition_epoch=EPOCH + 1), ErrorCode.NOT_CONTROLLER),
    Refusal(OK._replace(leader_epoch=EPOCH - 1), ErrorCode.FENCED_LEADER_EPOCH),
    Refusal(OK, ErrorCode.INVALID_REQUEST, sender=2),
    Refusal(OK._replace(partition_epoch=EPOCH - 1), ErrorCode.INVALID_UPDATE_VERSION),
    Refusal(wish(1, 4), ErrorCode.INVALID_REQUEST),
    Refusal(wish(1, 1), ErrorCode.INVALID_REQUEST),
    Refusal(wish(), ErrorCode.INVALID_REQUEST),
    Refusal(wish(2), ErrorCode.INVALID_REQUEST),
    Refusal(OK._replace(recovery_state=RECOVERING), ErrorCode.INVALID_REQUEST),
    Refusal(OK._replace(recovery_state=2), ErrorCode.INVALID_REQUEST),
    Refusal(wish(1, ReplicaEpoch(2, 19)), ErrorCode.INELIGIBLE_REPLICA),
]
TWO_FLAWS = [
    Refusal(wish()._replace(leader_epoch=EPOCH + 1), ErrorCode.NOT_CONTROLLER),
    Refusal(
        OK._replace(leader_epoch=EPOCH - 1, partition_epoch=EPOCH - 1),
        ErrorCode.FENCED_LEADER_EPOCH,
    ),
    Refusal(
        OK._replace(leader_epoch=EPOCH - 1, partition_epoch=EPOCH + 1), ErrorCode.NOT_CONTROLLER
    ),
    Refusal(wish(4)._replace(partition_epoch=EPOCH - 1), ErrorCode.INVALID_UPDATE_VERSION),
    Refusal(wish(1, ReplicaEpoch(4, 1)), ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize("refusal", [*REFUSALS, *TWO_FLAWS])
def test_a_wish_is_refused_for_its_first_flaw(refusal: Refusal) -> None:
    result = answer(cluster(), refusal.wanted, refusal.sender)
    assert (result.error, result.state) == (refusal.error, None)


@pytest.mark.parametrize("flaw", ["fenced", "in_controlled_shutdown"])
def test_a_broker_that_is_fenced_or_stops_joins_no_isr(flaw: str) -> None:
    image = cluster(broker(3, **{flaw: True}))
    assert answer(image, wish(1, 2, 3)).error is ErrorCode.INELIGIBLE_REPLICA
    assert granted(image, wish(1)).isr == (1,)


def test_a_replica_that_has_restarted_joins_in_its_new_life_only() -> None:
    image = cluster()
    assert answer(image, wish(1, ReplicaEpoch(3, 29))).error is ErrorCode.INELIGIBLE_REPLICA
    assert granted(image, wish(1, ReplicaEpoch(3, 30))).isr == (1, 3)
    # A leader of an old version tells no epochs.
    assert granted(image, wish(1, ReplicaEpoch(3, -1))).isr == (1, 3)


def test_a_leader_takes_others_in_when_it_has_recovered() -> None:
    image = cluster(isr=[1], leader_recovery_state=RECOVERING)
    still = wish(1)._replace(recovery_state=RECOVERING)
    assert granted(image, still).leader_recovery_state == RECOVERING
    with_others = wish(1, 2)._replace(recovery_state=RECOVERING)
    assert answer(image, with_others).error is ErrorCode.INVALID_REQUEST
    state = granted(image, wish(1, 2))
    assert (state.leader_recovery_state, state.isr) == (RECOVERED, (1, 2))


def test_the_last_replica_that_was_waited_for_ends_the_reassignment() -> None:
    """Replica 2 goes, 3 comes; the leader stays but gets a new epoch, for one has been removed."""
    image = cluster(replicas=[1, 3, 2], isr=[1, 2], adding_replicas=[3], removing_replicas=[2])
    state = granted(image, wish(1, 2, 3))
    assert (state.replicas, state.isr) == ((1, 3), (1, 3))
    assert (state.adding_replicas, state.removing_replicas) == ((), ())
    assert (state.leader, state.leader_epoch) == (1, EPOCH + 1)
    assert len(state.directories) == 2


def test_a_leader_that_is_removed_learns_that_another_one_leads() -> None:
    image = cluster(replicas=[2, 3, 1], isr=[1, 2], adding_replicas=[3], removing_replicas=[1])
    decision = alter_partitions(image, ReplicaEpoch(1, 10), [wish(1, 2, 3)])
    (result,) = decision.answer
    assert (result.error, result.state) == (ErrorCode.NEW_LEADER_ELECTED, None)
    delta = ClusterDelta(image)
    delta.replay_all(decision.records)
    state = delta.apply(10, 1).partition("orders", 0)
    assert state is not None
    assert (state.leader, state.leader_epoch, state.isr) == (2, EPOCH + 1, (2, 3))


def test_one_partition_cannot_be_changed_twice_by_one_request() -> None:
    decision = alter_partitions(cluster(), ReplicaEpoch(1, 10), [wish(1), wish(1, 2, 3)])
    assert [each.error for each in decision.answer] == [0, ErrorCode.INVALID_REQUEST]
    assert len(decision.records) == 1
