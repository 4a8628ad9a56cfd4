"""Moving replicas, electing leaders and forgetting brokers, in a cluster of three brokers."""

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ReplicaElectionResult,
    TopicPartitions,
)
from tierlog.clients.protocol.schema import Message
from tierlog.replication.control.brokers.broker_control import unregister_broker
from tierlog.replication.control.leadership.reassignment import (
    alter_reassignments,
    list_reassignments,
)
from tierlog.replication.control.leadership.requested_elections import elect_leaders
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage, PartitionImage
from tierlog.replication.metadata.metadata_records import (
    NO_LEADER,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from tierlog.tests import wire

TOPIC_ID = Uuid(b"t" * 16)
PREFERRED, UNCLEAN = 0, 1


def cluster(partition: PartitionRecord, fenced: frozenset[int] = frozenset()) -> ClusterImage:
    """Brokers 1 to 3, and `orders-0`."""
    partition.topic_id, partition.partition_id = TOPIC_ID, 0
    partition.leader_epoch = partition.partition_epoch = 4
    partition.directories = [Uuid(bytes([replica]) * 16) for replica in partition.replicas]
    brokers: list[Message] = [
        RegisterBrokerRecord(
            broker_id=number,
            broker_epoch=number,
            fenced=number in fenced,
            log_dirs=[Uuid(bytes([number]) * 16)],
        )
        for number in (1, 2, 3)
    ]
    return after(
        ClusterImage("cluster"),
        [*brokers, TopicRecord(name="orders", topic_id=TOPIC_ID), partition],
    )


def after(image: ClusterImage, records: "list[Message]") -> ClusterImage:
    delta = ClusterDelta(image)
    delta.replay_all(records)
    return delta.apply(image.offset + len(records), 1)


def orders(image: ClusterImage) -> PartitionImage:
    found = image.partition("orders", 0)
    assert found is not None
    # Each replica has a directory, whatever has moved.
    assert [directory[0] for directory in found.directories] == list(found.replicas)
    return found


def moved(image: ClusterImage, *replicas: int, may_change_factor: bool = True) -> ClusterImage:
    """The cluster after a reassignment; without replicas it is called off."""
    asked = wire.ReassignablePartition(partition_index=0, replicas=list(replicas) or None)
    request = wire.AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_change_factor,
        topics=[wire.ReassignableTopic(name="orders", partitions=[asked])],
    )
    decision = alter_reassignments(image, request)
    (result,) = decision.answer.responses[0].partitions
    if result.error_code:
        raise KafkaError(ErrorCode(result.error_code), result.error_message or "")
    return after(image, list(decision.records))


def test_new_replicas_are_added_and_waited_for() -> None:
    image = moved(cluster(PartitionRecord(replicas=[1, 2], isr=[1, 2], leader=1)), 3, 1)
    found = orders(image)
    assert found.replicas == (3, 1, 2)
    assert (found.adding_replicas, found.removing_replicas) == ((3,), (2,))
    assert (found.leader, found.isr, found.leader_epoch) == (1, (1, 2), 4)
    (topic,) = list_reassignments(image, wire.ListPartitionReassignmentsRequest(topics=None)).topics
    assert (topic.name, topic.partitions[0].adding_replicas) == ("orders", [3])


def test_what_is_called_off_leaves_the_partition_where_it_was() -> None:
    before = cluster(PartitionRecord(replicas=[1, 2], isr=[1, 2], leader=1))
    found = orders(moved(moved(before, 3, 1)))
    assert found.replicas == (1, 2)
    assert (found.adding_replicas, found.removing_replicas) == ((), ())


def test_replicas_that_only_go_are_gone_at_once() -> None:
    found = orders(moved(cluster(PartitionRecord(replicas=[1, 2], isr=[1, 2], leader=1)), 2))
    assert (found.replicas, found.isr) == ((2,), (2,))
    assert (found.leader, found.leader_epoch) == (2, 5)


def test_a_replica_that_a_newer_target_omits_leaves_the_isr_too() -> None:
    """It was being added, and was in sync already."""
    moving = PartitionRecord(
        replicas=[3, 1, 2], isr=[2, 3], leader=2, adding_replicas=[3], removing_replicas=[2]
    )
    found = orders(moved(cluster(moving), 1, 2))
    assert (found.replicas, found.isr, found.leader) == ((1, 2), (2,), 2)
    assert (found.adding_replicas, found.removing_replicas) == ((), ())
    assert found.leader_epoch == 5


def test_a_replica_that_alone_is_in_sync_stays_until_another_is() -> None:
    moving = PartitionRecord(
        replicas=[3, 1, 2], isr=[3], leader=3, adding_replicas=[3], removing_replicas=[2]
    )
    found = orders(moved(cluster(moving), 1, 2))
    assert (found.replicas, found.isr, found.leader) == ((1, 2, 3), (3,), 3)
    assert (found.adding_replicas, found.removing_replicas) == ((), (3,))


def test_the_number_of_replicas_can_be_protected() -> None:
    image = cluster(PartitionRecord(replicas=[1, 2], isr=[1, 2], leader=1))
    with pytest.raises(KafkaError) as refused:
        moved(image, 1, may_change_factor=False)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert orders(moved(image, 2, 1, may_change_factor=False)).replicas == (2, 1)


def test_nothing_can_be_called_off_that_has_not_begun() -> None:
    image = cluster(PartitionRecord(replicas=[1, 2], isr=[1, 2], leader=1))
    with pytest.raises(KafkaError) as refused:
        moved(image)
    assert refused.value.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def elected(image: ClusterImage, kind: int) -> "tuple[int, PartitionImage]":
    """The error for `orders-0`, and the partition afterwards."""
    asked = [TopicPartitions(topic="orders", partitions=[0])]
    decision = elect_leaders(image, ElectLeadersRequest(election_type=kind, topic_partitions=asked))
    (result,) = decision.answer.replica_election_results[0].partition_result
    return result.error_code, orders(after(image, list(decision.records)))


def test_the_preferred_leader_is_elected_if_it_is_in_sync_and_alive() -> None:
    led_by_another = PartitionRecord(replicas=[1, 2], isr=[1, 2], leader=2)
    error, found = elected(cluster(led_by_another), PREFERRED)
    assert (error, found.leader, found.leader_epoch) == (0, 1, 5)
    behind = PartitionRecord(replicas=[1, 2], isr=[2], leader=2)
    error, found = elected(cluster(behind), PREFERRED)
    assert (error, found.leader) == (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, 2)
    error, found = elected(cluster(led_by_another, fenced=frozenset({1})), PREFERRED)
    assert (error, found.leader) == (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, 2)


def test_an_unclean_election_takes_whoever_is_there_if_nobody_leads() -> None:
    nobody = PartitionRecord(replicas=[1, 2, 3], isr=[1], leader=NO_LEADER)
    error, found = elected(cluster(nobody, fenced=frozenset({1})), UNCLEAN)
    assert (error, found.leader, found.isr) == (0, 2, (2,))
    error, found = elected(cluster(nobody), UNCLEAN)
    assert (error, found.leader, found.isr) == (0, 1, (1,))
    error, _ = elected(cluster(nobody, fenced=frozenset({1, 2, 3})), UNCLEAN)
    assert error == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    led = PartitionRecord(replicas=[1, 2], isr=[2], leader=2)
    error, _ = elected(cluster(led), UNCLEAN)
    assert error == ErrorCode.ELECTION_NOT_NEEDED


def test_of_all_partitions_those_that_need_no_election_are_not_reported() -> None:
    image = cluster(PartitionRecord(replicas=[1], isr=[1], leader=1))
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None)
    decision = elect_leaders(image, request)
    results = [ReplicaElectionResult(topic="orders", partition_result=[])]
    assert decision.answer.replica_election_results == results
    assert not decision.records


def test_a_forgotten_broker_leads_nothing_and_is_in_sync_nowhere() -> None:
    image = cluster(PartitionRecord(replicas=[2, 1], isr=[2, 1], leader=2))
    image = after(image, list(unregister_broker(image, 1, 2).records))
    assert sorted(image.brokers) == [1, 3]
    found = orders(image)
    assert (found.leader, found.isr, found.replicas) == (1, (1,), (2, 1))


@pytest.mark.parametrize(
    ("broker_id", "code"), [(1, ErrorCode.INVALID_REQUEST), (9, ErrorCode.BROKER_ID_NOT_REGISTERED)]
)
def test_a_broker_that_runs_or_is_unknown_cannot_be_forgotten(
    broker_id: int, code: ErrorCode
) -> None:
    image = cluster(PartitionRecord(replicas=[1], isr=[1], leader=1))
    with pytest.raises(KafkaError) as refused:
        unregister_broker(image, 1, broker_id)
    assert refused.value.code is code
