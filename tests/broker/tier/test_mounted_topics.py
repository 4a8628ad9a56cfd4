"""Mounts: what may be stated, and which records a look at a tier makes."""

from dataclasses import replace

import pytest

from tierlog.broker.config.config import read_config
from tierlog.broker.config.mount_config import read_mounts
from tierlog.broker.tier.mounted_topics import decide_topics, removals
from tierlog.broker.tier.mounted_topics_file import MountedTopicsFile
from tierlog.clients.errors import KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.replication.control.brokers.broker_control import BrokerRegistration, register_broker
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage, Endpoint
from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.tiering.segments import segment_metadata
from tierlog.tiering.tools.lineage_choice import choose_lineage
from tierlog.tiering.tools.mounted_lineages import MountedPartition, MountedTopic, MountedView

TOPIC_ID = Uuid(b"their topic's id")
OTHER_ID = Uuid(b"another topic id")
URL = {"tierlog.mount.archive.url": "s3://theirs/prefix"}


def test_a_mount_is_read_from_its_properties() -> None:
    (mount,) = read_mounts(
        {
            **URL,
            "tierlog.mount.archive.option.endpoint_url": "http://127.0.0.1:9000",
            "tierlog.mount.archive.topics": "orders, payments",
            "tierlog.mount.archive.refresh.ms": "500",
        },
        None,
    )
    assert mount.name == "archive"
    assert mount.location.url == "s3://theirs/prefix"
    assert mount.location.options == {"endpoint_url": "http://127.0.0.1:9000"}
    assert mount.topics == {"orders", "payments"}
    assert mount.refresh_ms == 500


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"tierlog.mount.archive.topics": "orders"}, "a mount requires it"),
        (
            {**URL, "tierlog.mount.archive.path": "x"},
            "no such property; it has url, topics, refresh.ms",
        ),
        (
            {**URL, "tierlog.mount.archive.refresh.ms": "0"},
            "is not a time in ms: set a whole number from 1 to 999999999999",
        ),
        ({"tierlog.mount.a-b.url": "s3://x"}, "not tierlog.mount.<name>.<property>"),
        ({"tierlog.mount.archive": "s3://x"}, "not tierlog.mount.<name>.<property>"),
        ({**URL, "tierlog.mount.archive.refresh.ms": ""}, "'' is not a time in ms"),
        ({**URL, "tierlog.mount.archive.topics": " , "}, "names no topic: leave it out"),
        ({**URL, "tierlog.mount.archive.topics": "orders,a/b"}, "'a/b' contains one or more"),
        ({**URL, "tierlog.mount.archive.option.": "x"}, "option. is not an option"),
        ({"tierlog.mount.archive.url": "file:///a::s3://b"}, "chained"),
        ({**URL, "tierlog.mount.again.url": "s3://theirs/prefix/"}, "already uses this tier"),
        ({**URL, "rsm.config.url": "s3://theirs/prefix"}, "already uses this tier"),
    ],
)
def test_what_cannot_be_a_mount_is_refused_in_a_sentence(
    properties: dict[str, str], words: str
) -> None:
    with pytest.raises(KafkaError, match="Invalid property tierlog") as refusal:
        read_config(properties)
    assert words in refusal.value.message


def cluster() -> ClusterImage:
    image = ClusterImage("a cluster")
    registration = BrokerRegistration(
        0, OTHER_ID, [Endpoint("PLAINTEXT", "localhost", 9092, 0)], [OTHER_ID]
    )
    return after(image, *register_broker(image, registration, 0).records)


def after(image: ClusterImage, *records: object) -> ClusterImage:
    delta = ClusterDelta(image)
    delta.replay_all(records)  # type: ignore[arg-type]  # they are messages
    return delta.apply(image.offset + 1, 0)


def view(epoch: int = 7, partitions: int = 2, topic_id: Uuid = TOPIC_ID) -> MountedView:
    partition = TopicIdPartition(topic_id, "theirs", 0)
    segment = segment_metadata(1, epochs=((epoch, 0),), partition=partition)
    lineage = choose_lineage([segment], [(epoch, 0)])
    return MountedView(
        {"theirs": MountedTopic("theirs", topic_id, partitions)},
        {partition: MountedPartition(lineage, RemoteLog(partition))},
    )


def mounted(image: ClusterImage, what: MountedView) -> ClusterImage:
    decision = decide_topics(image, 0, what, {TOPIC_ID})
    assert decision.refused == {}
    return after(image, *decision.records)


def test_a_mounted_topic_has_its_own_id_and_an_epoch_that_no_client_has_seen() -> None:
    image = mounted(cluster(), view())
    topic = image.topics_by_name["theirs"]
    assert topic.topic_id == TOPIC_ID
    assert [topic.partitions[each].leader_epoch for each in (0, 1)] == [7, 0]
    assert image.topic_config("theirs")["remote.log.copy.disable"] == "true"
    assert image.topic_config("theirs")["retention.ms"] == "-1"


def test_the_same_view_again_changes_nothing() -> None:
    image = mounted(cluster(), view())
    assert decide_topics(image, 0, view(), {TOPIC_ID}).records == []


def test_epochs_and_partitions_follow_the_other_cluster() -> None:
    image = mounted(mounted(cluster(), view()), view(epoch=10, partitions=3))
    topic = image.topics_by_name["theirs"]
    assert topic.partitions[0].leader_epoch == 10
    assert sorted(topic.partitions) == [0, 1, 2]


def test_a_topic_that_they_deleted_goes_and_one_made_again_comes_back() -> None:
    image = mounted(cluster(), view())
    gone = mounted(image, MountedView())
    assert "theirs" not in gone.topics_by_name
    assert removals(image, {TOPIC_ID, OTHER_ID}) != []
    assert removals(gone, {TOPIC_ID, OTHER_ID}) == []


@pytest.mark.parametrize("name", ["theirs", "th.eirs", "__cluster_metadata", "no good"])
def test_a_name_that_cannot_be_shown_is_refused(name: str) -> None:
    image = mounted(cluster(), view())
    if name == "th.eirs":
        image = replace(
            image, topics_by_name={"th_eirs": image.topics_by_name["theirs"]}, topics_by_id={}
        )
    topic = MountedTopic(name, OTHER_ID, 1)
    decision = decide_topics(image, 0, MountedView({name: topic}, {}), set())
    assert decision.records == []
    assert decision.refused[name]


def test_which_topics_are_mounted_is_known_after_a_restart() -> None:
    files = SimulatedFiles(SimulatedDisk())
    files.mkdirs("/data")
    MountedTopicsFile(files, "/data").replace({TOPIC_ID: "archive", OTHER_ID: "other"})
    again = MountedTopicsFile(files, "/data")
    assert again.of("archive") == {TOPIC_ID}
    assert again.mount_of[OTHER_ID] == "other"
