"""The difference of two images, with which a running broker loads a snapshot."""

from hypothesis import given

from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage, ConfigResource
from tierlog.replication.metadata.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

from .random_records import PLANS, RecordWalk, Step, folded

A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)


def difference(base: ClusterImage, image: ClusterImage) -> ClusterImage:
    """What `base` and the changes from it to `image` give."""
    return ClusterDelta.between(base, image).apply(image.offset, image.epoch)


@given(PLANS, PLANS)
def test_the_changes_from_an_image_to_a_later_one_give_the_later_one(
    earlier: list[Step], later: list[Step]
) -> None:
    walk = RecordWalk()
    base = folded(walk.records(earlier))
    image = folded(walk.records(later), base)
    assert difference(base, image) == image
    assert difference(ClusterImage("cluster"), image) == image


@given(PLANS, PLANS)
def test_any_image_can_become_any_other(ours: list[Step], theirs: list[Step]) -> None:
    """A deletion that the other does not remember is proven by the topic's absence."""
    base, image = folded(RecordWalk(1).records(ours)), folded(RecordWalk(2).records(theirs))
    made = difference(base, image)
    for field in ("topics_by_id", "topics_by_name", "configs", "brokers", "controllers"):
        assert getattr(made, field) == getattr(image, field), field
    assert made.features == image.features
    assert made.client_quotas == image.client_quotas
    assert made.acls == image.acls
    assert made.scram_credentials == image.scram_credentials
    assert made.next_producer_id == image.next_producer_id
    assert made.deleted_topic_ids == {
        *base.deleted_topic_ids,
        *image.deleted_topic_ids,
        *base.topics_by_id,
    }


@given(PLANS)
def test_between_equal_images_there_is_nothing(plan: list[Step]) -> None:
    records = RecordWalk().records(plan)
    delta = ClusterDelta.between(folded(records), folded(records))
    assert not delta.changed_topics
    assert not delta.deleted_topics
    assert not delta.removed_topics
    assert not delta.changed_configs
    assert not delta.changed_brokers
    assert not delta.changed_controllers
    assert not delta.features
    assert not delta.changed_quotas
    assert not delta.changed_acls
    assert not delta.changed_scram_credentials


def test_listeners_hear_of_a_topic_that_went_one_that_came_and_one_that_changed() -> None:
    both = [PartitionRecord(partition_id=each, topic_id=A, leader=1) for each in (0, 1)]
    base = folded([TopicRecord(name="a", topic_id=A), *both, TopicRecord(name="b", topic_id=B)])
    again = Uuid(b"c" * 16)
    image = folded(
        [
            PartitionChangeRecord(partition_id=1, topic_id=A, leader=2),
            RemoveTopicRecord(topic_id=B),
            TopicRecord(name="b", topic_id=again),
        ],
        base,
    )
    delta = ClusterDelta.between(base, image)
    assert list(delta.deleted_topics) == [B]
    assert list(delta.changed_topics) == [A, again]
    assert list(delta.changed_topics[A].changed_partitions) == [1]
    assert not delta.changed_topics[A].was_created
    assert delta.changed_topics[again].was_created


def test_a_configuration_and_a_broker_that_went_are_reported_as_gone() -> None:
    registered = RegisterBrokerRecord(broker_id=1)
    base = folded(
        [registered, ConfigRecord(resource_type=4, resource_name="1", name="x", value="1")]
    )
    reset = ConfigRecord(resource_type=4, resource_name="1", name="x", value=None)
    delta = ClusterDelta.between(base, folded([reset, UnregisterBrokerRecord(broker_id=1)], base))
    assert delta.changed_configs == {ConfigResource(4, "1"): {}}
    assert delta.changed_brokers == {1: None}
