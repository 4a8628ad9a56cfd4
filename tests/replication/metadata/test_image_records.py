"""An image as records: a snapshot and the log after it give the image of the whole log."""

from dataclasses import replace

from hypothesis import given, strategies as st

from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.metadata import cluster_image
from tierlog.replication.metadata.cluster_image import ClusterImage
from tierlog.replication.metadata.image_records import image_records
from tierlog.replication.metadata.metadata_records import (
    FeatureLevelRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    decode_record,
    encode_record,
)

from .random_records import PLANS, RecordWalk, Step, folded

EMPTY = ClusterImage("cluster")


def through_bytes(image: ClusterImage) -> ClusterImage:
    """The image that another process makes of this image's records."""
    values = [encode_record(record) for record in image_records(image)]
    made = folded([decode_record(value) for value in values])
    return replace(made, offset=image.offset, epoch=image.epoch)


def test_an_empty_image_needs_no_records() -> None:
    assert not list(image_records(EMPTY))


@given(PLANS, st.data())
def test_a_snapshot_and_the_rest_of_the_log_give_the_image_of_the_whole_log(
    plan: list[Step], data: st.DataObject
) -> None:
    records = RecordWalk().records(plan)
    cut = data.draw(st.integers(0, len(records)))
    snapshot = folded(records[:cut])
    loaded = through_bytes(snapshot)
    assert loaded == snapshot
    whole = folded(records)
    assert folded(records[cut:], loaded) == whole
    assert list(image_records(through_bytes(whole))) == list(image_records(whole))


@given(PLANS)
def test_deletions_keep_their_order(plan: list[Step]) -> None:
    """The oldest is forgotten first, on every node the same."""
    image = folded(RecordWalk().records(plan))
    assert list(through_bytes(image).deleted_topics.items()) == list(image.deleted_topics.items())


def test_the_kinds_come_in_kafkas_order() -> None:
    plan = [(kind, about, 3) for kind in range(16) for about in range(3)]
    image = folded(RecordWalk().records([*plan, (0, 1, 3)]))
    kinds = list(dict.fromkeys(type(each).__name__ for each in image_records(image)))
    assert kinds == [
        "FeatureLevelRecord",
        "RegisterBrokerRecord",
        "RegisterControllerRecord",
        "TopicRecord",
        "RemoveTopicRecord",
        "PartitionRecord",
        "ConfigRecord",
        "ClientQuotaRecord",
        "ProducerIdsRecord",
        "AccessControlEntryRecord",
        "UserScramCredentialRecord",
    ]


def test_the_metadata_version_is_the_first_record() -> None:
    levels = [
        FeatureLevelRecord(name=name, feature_level=1) for name in ("a", "metadata.version", "z")
    ]
    first, *others = image_records(folded(levels))
    assert isinstance(first, FeatureLevelRecord)
    assert first.name == "metadata.version"
    assert [each.name for each in others if isinstance(each, FeatureLevelRecord)] == ["a", "z"]


def test_nodes_write_the_same_records_whatever_the_order_in_which_they_learned_of_things() -> None:
    brokers = [RegisterBrokerRecord(broker_id=each) for each in (3, 1, 2)]
    controllers = [RegisterControllerRecord(controller_id=each) for each in (3, 1, 2)]
    topics = [TopicRecord(name=name, topic_id=Uuid(name.encode() * 16)) for name in "cab"]
    records = [*brokers, *controllers, *topics]
    backwards = folded(records[::-1])
    assert list(image_records(folded(records))) == list(image_records(backwards))


def test_no_more_than_so_many_deletions_are_remembered() -> None:
    topics = [Uuid(number.to_bytes(16, "big")) for number in range(20)]
    limit, cluster_image.DELETED_TOPICS_MAX = cluster_image.DELETED_TOPICS_MAX, 15
    try:
        image = EMPTY
        for topic_id in topics:
            created = TopicRecord(name="t", topic_id=topic_id)
            image = folded([created, RemoveTopicRecord(topic_id=topic_id)], image)
        assert list(image.deleted_topics) == topics[5:]
    finally:
        cluster_image.DELETED_TOPICS_MAX = limit
