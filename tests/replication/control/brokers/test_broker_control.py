"""A broker comes up: which partitions it is elected for, and by what record."""

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.control.brokers.broker_control import register_broker
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage, PartitionImage
from tierlog.replication.metadata.metadata_records import (
    NO_LEADER,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from tierlog.tests.replication.node import NODE_ID, registration

TOPIC_ID = Uuid(b"t" * 16)
OTHER = NODE_ID + 1


def after_registration(partition: PartitionRecord) -> tuple[PartitionImage, int]:
    """A partition once the broker has registered, and how many records changed it."""
    delta = ClusterDelta(ClusterImage("cluster"))
    partition.topic_id, partition.partition_id = TOPIC_ID, 0
    partition.replicas = [NODE_ID, OTHER]
    partition.leader_epoch = partition.partition_epoch = 4
    delta.replay_all([TopicRecord(name="orders", topic_id=TOPIC_ID), partition])
    image = delta.apply(1, 1)
    records = register_broker(image, registration(), image.offset + 1).records
    changed = ClusterDelta(image)
    changed.replay_all(records)
    found = changed.apply(image.offset + len(records), 1).partition("orders", 0)
    assert found is not None
    return found, sum(isinstance(record, PartitionChangeRecord) for record in records)


def test_what_it_led_it_leads_in_a_new_epoch() -> None:
    isr = [NODE_ID, OTHER]
    found, changes = after_registration(PartitionRecord(isr=isr, leader=NODE_ID))
    assert (found.leader, found.leader_epoch, list(found.isr)) == (NODE_ID, 5, isr)
    assert changes == 1


def test_of_what_nobody_leads_it_leads_what_it_is_in_sync_with() -> None:
    found, _ = after_registration(PartitionRecord(isr=[NODE_ID], leader=NO_LEADER))
    assert (found.leader, found.leader_epoch, list(found.isr)) == (NODE_ID, 5, [NODE_ID])


def test_an_eligible_replica_leads_where_the_in_sync_set_is_empty() -> None:
    left_by_a_stop = PartitionRecord(
        isr=[], leader=NO_LEADER, eligible_leader_replicas=[NODE_ID, OTHER], last_known_elr=[OTHER]
    )
    found, _ = after_registration(left_by_a_stop)
    assert (found.leader, found.leader_epoch, list(found.isr)) == (NODE_ID, 5, [NODE_ID])
    # Without ELR nobody asks for the last known leader, and nobody forgets it, as in Kafka.
    assert (found.elr, found.last_known_elr) == ((), (OTHER,))


@pytest.mark.parametrize(
    "partition",
    [
        PartitionRecord(isr=[OTHER], leader=OTHER),
        PartitionRecord(isr=[OTHER], leader=NO_LEADER, eligible_leader_replicas=[NODE_ID]),
        PartitionRecord(isr=[], leader=NO_LEADER, eligible_leader_replicas=[OTHER]),
        PartitionRecord(isr=[], leader=NO_LEADER, last_known_elr=[NODE_ID]),
    ],
    ids=["led by another", "another is in sync", "another is eligible", "once known"],
)
def test_what_it_may_not_lead_stays_as_it_is(partition: PartitionRecord) -> None:
    before = partition.leader, partition.isr
    found, _ = after_registration(partition)
    assert (found.leader, list(found.isr), found.leader_epoch) == (*before, 4)
