"""What comes back from a bucket, decided before anything is written."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from tierlog.clients.kafka_uuid import Uuid, uuid_to_string
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.storage.producer.producer_entry import BatchMetadata, ProducerEntry
from tierlog.storage.producer.producer_snapshot import decode_snapshot, encode_snapshot
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tests.tiering.remote_partition import PARTITION, batch_bytes
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


def left(found: RebuildPlan) -> list[tuple[str, Uuid]]:
    return [(each.name, each.topic_id) for each in found.left]


def test_of_two_topics_of_one_name_somebody_must_choose() -> None:
    """One may have been deleted before the other was made, or two clusters share a prefix."""
    bucket = Bucket()
    bucket.put(2, (0, 99))
    bucket.put(3, (0, 9), partition=PARTITION._replace(topic_id=OTHER_ID))
    found = plan(bucket)
    assert found.topics == []
    assert {each.topic_id for each in found.left} == {PARTITION.topic_id, OTHER_ID}
    (asked,) = [each for each in found.findings if each.is_trouble]
    for topic_id in (PARTITION.topic_id, OTHER_ID):
        assert f"--topic-id {uuid_to_string(topic_id)}" in asked.advice
        chosen = plan(bucket, chosen=[topic_id])
        assert [each.topic_id for each in chosen.topics] == [topic_id]
        assert not chosen.has_trouble
        assert chosen.left == []
    elsewhere = plan(bucket, chosen=[Uuid(b"of another topic")])
    assert elsewhere.has_trouble


def test_a_hole_leaves_its_topic_out_unless_it_may_be_skipped() -> None:
    bucket = Bucket()
    bucket.put(1, (0, 9))
    bucket.put(3, (20, 29))
    found = plan(bucket)
    assert found.has_trouble
    assert found.topics == []
    assert left(found) == [(PARTITION.topic, PARTITION.topic_id)]
    assert found.left[0].reasons == ("partition 0: no segment holds the offsets 10 to 19",)
    found = plan(bucket, skip_holes=True)
    assert not found.has_trouble
    assert found.left == []
    lineage = found.topics[0].partitions[0].lineage
    assert (lineage.log_start_offset, lineage.log_end_offset) == (20, 30)


OTHER = PARTITION._replace(topic_id=OTHER_ID, topic="payments")


def hole(bucket: Bucket) -> None:
    bucket.put(1, (0, 9))
    bucket.put(3, (20, 29))


def unreadable_manifest(bucket: Bucket) -> None:
    segment = bucket.put(1, (0, 9))
    bucket.objects[object_key(segment, "manifest")] = b"?"


def two_of_one_name(bucket: Bucket) -> None:
    bucket.put(1, (0, 9))
    bucket.put(2, (0, 9), partition=PARTITION._replace(topic_id=Uuid(b"a third topic id")))


def lost_producers(bucket: Bucket) -> None:
    segment = bucket.put(1, (0, 9))
    bucket.damage(segment, "snapshot", 0)
    bucket.damage(segment, "log", 70)


@pytest.mark.parametrize(
    "damage", [hole, unreadable_manifest, two_of_one_name, lost_producers], ids=lambda f: f.__name__
)
def test_one_topic_never_keeps_back_another(damage: Callable[[Bucket], None]) -> None:
    bucket = Bucket()
    damage(bucket)
    bucket.put(9, (0, 9), partition=OTHER)
    found = plan(bucket)
    assert [each.name for each in found.topics] == ["payments"]
    assert {each.name for each in found.left} == {PARTITION.topic}
    assert found.has_trouble
    assert all(each.reasons for each in found.left)


def test_a_partition_never_comes_back_without_its_neighbours() -> None:
    """An empty log in the place of one with a hole would take its offsets again."""
    bucket = Bucket()
    hole(bucket)
    bucket.put(9, (0, 9), partition=PARTITION._replace(partition=1))
    found = plan(bucket)
    assert found.topics == []
    assert left(found) == [(PARTITION.topic, PARTITION.topic_id)]


def test_what_lies_before_a_segment_that_cannot_be_read_comes_back() -> None:
    bucket = Bucket()
    bucket.put(1, (0, 9))
    segment = bucket.put(2, (10, 19))
    del bucket.objects[object_key(segment, "log")]
    found = plan(bucket)
    lineage = found.topics[0].partitions[0].lineage
    assert (lineage.log_start_offset, lineage.log_end_offset) == (0, 10)
    assert found.left == []
    # And its loss is told.
    (finding,) = [each for each in found.findings if each.is_trouble]
    assert "log is missing" in finding.problem
    assert finding.offsets == (10, 19)


def test_a_configuration_that_a_broker_refuses_costs_itself() -> None:
    """As a later version may have written it."""
    bucket = Bucket()
    bucket.put(1, (0, 9), topic=TopicDescription(3, {"retention.ms": "1", "no.such": "x"}))
    bucket.put(2, (0, 9), partition=OTHER, topic=TopicDescription(1, {"retention.ms": "7"}))
    found = plan(bucket)
    refused, other = found.topics
    assert (refused.config["retention.ms"], refused.partition_count) == ("-1", 3)
    assert other.config["retention.ms"] == "7"
    assert "its configuration is refused (Unknown topic config name: no.such)" in "".join(
        each.problem for each in found.findings
    )


def test_a_log_that_began_in_the_midst_of_a_segment_comes_back_from_there() -> None:
    bucket = Bucket()
    bucket.put(1, (0, 9), log_start=2)
    bucket.put(2, (10, 19), log_start=2)
    found = plan(bucket)
    assert not found.has_trouble
    lineage = found.topics[0].partitions[0].lineage
    assert (lineage.log_start_offset, lineage.log_end_offset) == (2, 20)


def damaged(bucket: Bucket, segment: RemoteLogSegmentMetadata, suffix: str) -> None:
    bucket.damage(segment, suffix, 0)


def removed(bucket: Bucket, segment: RemoteLogSegmentMetadata, suffix: str) -> None:
    del bucket.objects[object_key(segment, suffix)]


WAYS = [damaged, removed]
HISTORY = ((0, 0), (2, 13), (5, 25))


@pytest.mark.parametrize("lose", WAYS)
def test_the_manifests_tell_the_leader_epochs_of_a_tail_that_lost_them(
    lose: Callable[[Bucket, RemoteLogSegmentMetadata, str], None],
) -> None:
    bucket = Bucket()
    bucket.put(1, (0, 9), HISTORY)
    bucket.put(2, (10, 19), HISTORY)
    # A branch that an unclean election has cut off.
    bucket.put(3, (20, 29), ((0, 0), (2, 13), (3, 21)))
    tail = bucket.put(4, (20, 29), HISTORY)
    lose(bucket, tail, "leader_epoch_checkpoint")
    found = plan(bucket)
    lineage = found.topics[0].partitions[0].lineage
    assert lineage.history == HISTORY
    assert (lineage.log_start_offset, lineage.log_end_offset, lineage.holes) == (0, 30, ())
    assert [each.is_trouble for each in found.findings].count(True) >= 1
    assert found.left == []


def test_where_the_manifests_tell_of_two_branches_a_lost_history_is_not_guessed() -> None:
    """Which of them was cut off stands in the history alone: the other would be other records."""
    bucket = Bucket()
    bucket.put(1, (0, 9))
    bucket.put(2, (5, 9), ((0, 0), (3, 5)))
    tail = bucket.put(3, (10, 19), ((0, 0), (5, 10)))
    damaged(bucket, tail, "leader_epoch_checkpoint")
    found = plan(bucket)
    assert found.topics == []
    assert found.left[0].reasons[0].endswith("and the manifests hold several branches")


def transactional(offset: int, *, producer_id: int = 7, epoch: int = 2) -> bytes:
    """A batch of one record, in a transaction."""
    return bytes(
        build_batch(
            [Record(offset, offset, None, b"v")],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=offset,
            is_transactional=True,
        )
    )


@pytest.mark.parametrize("lose", WAYS)
@pytest.mark.parametrize("older_too", [False, True])
def test_the_batches_tell_the_producers_of_a_tail_that_lost_them(
    lose: Callable[[Bucket, RemoteLogSegmentMetadata, str], None], *, older_too: bool
) -> None:
    """The transaction that is open in the end is aborted only if it is known."""
    bucket = Bucket()
    first = bucket.put_log(
        1,
        transactional(0, producer_id=9) + transactional(1),
        others={
            "snapshot": b"" if older_too else encode_snapshot([open_since(9, 0), open_since(7, 1)])
        },
    )
    tail = bucket.put_log(2, transactional(2) + batch_bytes((3, 5, 0)))
    lose(bucket, tail, "snapshot")
    assert first.end_offset == 1
    found = plan(bucket)
    entries = {
        each.producer_id: each
        for each in decode_snapshot(found.topics[0].partitions[0].producer_snapshot)
    }
    assert {each: entry.current_txn_first_offset for each, entry in entries.items()} == {9: 0, 7: 1}
    assert (entries[7].last_offset, entries[7].last_sequence, entries[7].producer_epoch) == (
        2,
        2,
        2,
    )
    assert found.left == []


def open_since(producer_id: int, offset: int) -> ProducerEntry:
    entry = ProducerEntry(producer_id, 2)
    entry.current_txn_first_offset = offset
    entry.batches.append(BatchMetadata(offset, offset, 0, offset))
    return entry


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
