"""What comes back from a bucket, decided before anything is written."""

import asyncio
from collections.abc import Sequence

import pytest

from tierlog.clients.kafka_uuid import Uuid, uuid_to_string
from tierlog.storage.producer.producer_entry import ProducerEntry
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tests.tiering.tools.bucket import Bucket
from tierlog.tiering.store.manifest import TopicDescription
from tierlog.tiering.store.object_keys import object_key
from tierlog.tiering.tools.plan_rebuild import RebuildPlan, plan_rebuild
from tierlog.tiering.tools.tier_survey import survey_tier

OTHER_ID = Uuid(b"another topic id")


def plan(bucket: Bucket, *, skip_holes: bool = False, chosen: Sequence[Uuid] = ()) -> RebuildPlan:
    async def story() -> RebuildPlan:
        survey = await survey_tier(bucket)
        return await plan_rebuild(bucket, survey, skip_holes=skip_holes, chosen=chosen)

    return asyncio.run(story())


def test_the_newest_manifest_tells_the_configuration() -> None:
    bucket = Bucket()
    bucket.put(1, (0, 9), topic=TopicDescription(1, {"retention.ms": "1"}))
    bucket.put(2, (10, 19), topic=TopicDescription(3, {"retention.ms": "2"}))
    (topic,) = plan(bucket).topics
    assert topic.config == {"retention.ms": "2", "remote.storage.enable": "true"}
    assert topic.partition_count == 3
    assert topic.topic_id == PARTITION.topic_id
    assert topic.is_config_known


def test_where_no_manifest_tells_nothing_is_deleted_on_a_guess() -> None:
    bucket = Bucket()
    bucket.put(1, (0, 9), partition=PARTITION._replace(partition=2))
    found = plan(bucket)
    (topic,) = found.topics
    assert topic.config["retention.ms"] == topic.config["retention.bytes"] == "-1"
    assert topic.partition_count == 3
    assert not found.has_trouble
    assert "no manifest has the configuration" in found.findings[0].problem


def test_of_two_topics_of_one_name_somebody_must_choose() -> None:
    """One may have been deleted before the other was made, or two clusters share a prefix."""
    bucket = Bucket()
    bucket.put(2, (0, 99))
    bucket.put(3, (0, 9), partition=PARTITION._replace(topic_id=OTHER_ID))
    found = plan(bucket)
    (topic,) = found.topics
    assert topic.topic_id == OTHER_ID
    assert found.has_trouble
    (asked,) = [each for each in found.findings if each.is_trouble]
    for topic_id in (PARTITION.topic_id, OTHER_ID):
        assert f"--topic-id {uuid_to_string(topic_id)}" in asked.advice
        chosen = plan(bucket, chosen=[topic_id])
        assert [each.topic_id for each in chosen.topics] == [topic_id]
        assert not chosen.has_trouble
    elsewhere = plan(bucket, chosen=[Uuid(b"of another topic")])
    assert elsewhere.has_trouble


def test_a_hole_stops_a_rebuild_unless_it_may_be_skipped() -> None:
    bucket = Bucket()
    bucket.put(1, (0, 9))
    bucket.put(3, (20, 29))
    assert plan(bucket).has_trouble
    found = plan(bucket, skip_holes=True)
    assert not found.has_trouble
    lineage = found.topics[0].partitions[0].lineage
    assert (lineage.log_start_offset, lineage.log_end_offset) == (20, 30)


def test_a_log_that_began_in_the_midst_of_a_segment_comes_back_from_there() -> None:
    bucket = Bucket()
    bucket.put(1, (0, 9), log_start=2)
    bucket.put(2, (10, 19), log_start=2)
    found = plan(bucket)
    assert not found.has_trouble
    lineage = found.topics[0].partitions[0].lineage
    assert (lineage.log_start_offset, lineage.log_end_offset) == (2, 20)


@pytest.mark.parametrize("suffix", ["leader_epoch_checkpoint", "snapshot"])
def test_a_damaged_tail_is_trouble(suffix: str) -> None:
    bucket = Bucket()
    metadata = bucket.put(1, (0, 9))
    bucket.damage(metadata, suffix, 0)
    assert plan(bucket).has_trouble


def test_what_is_not_whole_does_not_come_back() -> None:
    bucket = Bucket()
    metadata = bucket.put(1, (0, 9))
    later = bucket.put(2, (10, 19))
    del bucket.objects[object_key(later, "manifest")]
    (topic,) = plan(bucket).topics
    assert topic.partitions[0].lineage.segments == (metadata,)


def test_producer_ids_go_on_above_those_that_are_remembered() -> None:
    bucket = Bucket()
    bucket.put(1, (0, 9), producers=[ProducerEntry(4711)])
    assert plan(bucket).next_producer_id == 4712


def test_an_empty_bucket_gives_an_empty_plan() -> None:
    assert plan(Bucket()).topics == []
