"""What the controller notes of log directories: where replicas are, and which have failed."""

from collections.abc import Sequence

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.clients.protocol.schema import Message
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.replication.control.brokers.broker_control import controlled_shutdown, register_broker
from tierlog.replication.control.brokers.directory_control import (
    assign_replicas,
    directories_failed,
)
from tierlog.replication.control.partition_control import UNASSIGNED_DIRECTORY, is_online
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage, PartitionImage
from tierlog.replication.metadata.metadata_records import (
    NO_LEADER,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from tierlog.tests.replication.node import NODE_ID, registration

TOPIC_ID = Uuid(b"t" * 16)
REPLICA = TopicIdPartition(TOPIC_ID, "orders", 0)
A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)
OTHER = NODE_ID + 1


def cluster(partition: PartitionRecord, *, knows_elr: bool = False) -> ClusterImage:
    """A broker with two directories, and one partition."""
    partition.topic_id, partition.partition_id = TOPIC_ID, 0
    partition.leader_epoch = partition.partition_epoch = 4
    records: list[Message] = [
        *register_broker(ClusterImage("cluster"), registration(directories=[A, B]), 0).records,
        TopicRecord(name="orders", topic_id=TOPIC_ID),
        partition,
    ]
    if knows_elr:
        records.append(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    return after(ClusterImage("cluster"), records)


def after(image: ClusterImage, records: Sequence[Message]) -> ClusterImage:
    delta = ClusterDelta(image)
    delta.replay_all(records)
    return delta.apply(image.offset + len(records), 1)


def found(image: ClusterImage) -> PartitionImage:
    partition = image.partition("orders", 0)
    assert partition is not None
    return partition


def alone(directory: Uuid = A, **changes: int) -> PartitionRecord:
    """A partition of this broker, which leads it."""
    record = PartitionRecord(
        replicas=[NODE_ID], isr=[NODE_ID], leader=NODE_ID, directories=[directory]
    )
    for name, value in changes.items():
        setattr(record, name, value)
    return record


def test_a_directory_is_noted_and_nothing_else_changes() -> None:
    image = cluster(alone(UNASSIGNED_DIRECTORY))
    (record,) = assign_replicas(image, NODE_ID, {REPLICA: B}).records
    partition = found(after(image, [record]))
    assert partition.directories == (B,)
    assert (partition.leader_epoch, partition.partition_epoch) == (4, 5)
    assert not assign_replicas(after(image, [record]), NODE_ID, {REPLICA: B}).records


def test_the_directories_of_other_replicas_stay() -> None:
    shared = PartitionRecord(
        replicas=[OTHER, NODE_ID], isr=[OTHER], leader=OTHER, directories=[B, A]
    )
    image = cluster(shared)
    image = after(image, assign_replicas(image, NODE_ID, {REPLICA: B}).records)
    assert found(image).directories == (B, B)


def test_records_of_an_old_cluster_name_no_directories() -> None:
    image = cluster(PartitionRecord(replicas=[NODE_ID, OTHER], isr=[NODE_ID], leader=NODE_ID))
    assert found(image).directory(NODE_ID) == ZERO_UUID
    image = after(image, assign_replicas(image, NODE_ID, {REPLICA: A}).records)
    assert found(image).directories == (A, ZERO_UUID)


def test_what_is_gone_is_passed_over() -> None:
    image = cluster(alone())
    for gone in (
        TopicIdPartition(TOPIC_ID, "orders", 7),
        TopicIdPartition(Uuid(b"x" * 16), "orders", 0),
    ):
        assert not assign_replicas(image, NODE_ID, {gone: B}).records
    elsewhere = cluster(
        PartitionRecord(replicas=[OTHER], isr=[OTHER], leader=OTHER, directories=[A])
    )
    assert not assign_replicas(elsewhere, NODE_ID, {REPLICA: B}).records


def test_a_failed_directory_takes_its_partitions_with_it() -> None:
    image = cluster(alone(A), knows_elr=True)
    failed = after(image, directories_failed(image, NODE_ID, [A]).records)
    partition = found(failed)
    assert (partition.leader, partition.isr, partition.elr) == (NO_LEADER, (), (NODE_ID,))
    assert partition.last_known_elr == (NODE_ID,)
    assert failed.brokers[NODE_ID].directories == (B,)
    # Once is enough.
    assert not directories_failed(failed, NODE_ID, [A]).records


def test_without_eligible_replicas_the_last_in_sync_stays_in_the_set() -> None:
    image = cluster(alone(A))
    partition = found(after(image, directories_failed(image, NODE_ID, [A]).records))
    assert (partition.leader, partition.isr, partition.elr) == (NO_LEADER, (NODE_ID,), ())


def test_the_other_directory_does_not_notice() -> None:
    image = cluster(alone(B))
    partition = found(after(image, directories_failed(image, NODE_ID, [A]).records))
    assert partition == found(image)


def test_another_replica_in_sync_takes_over() -> None:
    both = PartitionRecord(
        replicas=[NODE_ID, OTHER], isr=[NODE_ID, OTHER], leader=NODE_ID, directories=[A, A]
    )
    other = RegisterBrokerRecord(broker_id=OTHER, broker_epoch=1, fenced=False, log_dirs=[A])
    image = after(cluster(both), [other])
    partition = found(after(image, directories_failed(image, NODE_ID, [A]).records))
    assert (partition.leader, partition.isr) == (OTHER, (OTHER,))


def test_who_is_not_registered_has_no_directories() -> None:
    with pytest.raises(KafkaError) as refused:
        directories_failed(cluster(alone()), OTHER, [A])
    assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize("knows_elr", [False, True])
def test_a_replica_that_comes_to_a_directory_that_works_leads_again(knows_elr: bool) -> None:
    image = cluster(alone(A), knows_elr=knows_elr)
    image = after(image, directories_failed(image, NODE_ID, [A]).records)
    image = after(image, assign_replicas(image, NODE_ID, {REPLICA: B}).records)
    partition = found(image)
    assert (partition.leader, partition.isr, partition.elr) == (NODE_ID, (NODE_ID,), ())


@pytest.mark.parametrize("knows_elr", [False, True])
def test_a_broker_leads_what_it_has_come_back_with(knows_elr: bool) -> None:
    image = cluster(alone(A), knows_elr=knows_elr)
    missing = register_broker(image, registration(2, [B]), image.offset + 1)
    image = after(image, missing.records)
    assert found(image).leader == NO_LEADER
    # Nothing changes as long as it is missing.
    again = register_broker(image, registration(3, [B]), image.offset + 1)
    assert found(after(image, again.records)) == found(image)
    whole = register_broker(image, registration(4, [A, B]), image.offset + 1)
    partition = found(after(image, whole.records))
    assert (partition.leader, partition.isr, partition.elr) == (NODE_ID, (NODE_ID,), ())


def test_what_is_not_reported_counts_as_present() -> None:
    for directory in (None, ZERO_UUID, UNASSIGNED_DIRECTORY, A):
        assert is_online(directory, [A])
    assert not is_online(B, [A])
    lost = Uuid(bytes(15) + b"\x02")
    assert not is_online(lost, [A])


@pytest.mark.parametrize("knows_elr", [False, True])
def test_a_broker_that_goes_says_so_and_leads_nothing(knows_elr: bool) -> None:
    image = cluster(alone(A), knows_elr=knows_elr)
    going = after(image, controlled_shutdown(image, NODE_ID))
    broker = going.brokers[NODE_ID]
    assert (broker.fenced, broker.in_controlled_shutdown) == (True, True)
    partition = found(going)
    expected = (NO_LEADER, (), (NODE_ID,)) if knows_elr else (NO_LEADER, (NODE_ID,), ())
    assert (partition.leader, partition.isr, partition.elr) == expected
    back = after(going, register_broker(going, registration(2, [A, B]), going.offset + 1).records)
    assert (found(back).leader, found(back).isr) == (NODE_ID, (NODE_ID,))
    assert back.brokers[NODE_ID].is_active


def test_who_was_never_registered_needs_no_farewell() -> None:
    assert controlled_shutdown(cluster(alone()), OTHER) == []
