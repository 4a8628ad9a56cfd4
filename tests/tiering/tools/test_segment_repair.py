"""What a bucket has lost is written again, wherever something else still tells it."""

import asyncio
from collections.abc import Callable

import pytest

from tierlog.clients.record.builder import build_control_batch
from tierlog.clients.record.control import ControlRecordType, EndTransactionMarker
from tierlog.storage.producer.producer_snapshot import decode_snapshot
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tests.tiering.remote_partition import PARTITION, batch_bytes
from tierlog.tests.tiering.tools.bucket import Bucket, forge
from tierlog.tiering.store.manifest import TopicDescription, decode_manifest
from tierlog.tiering.store.object_keys import object_key
from tierlog.tiering.tools.lineage_choice import remote_log_of
from tierlog.tiering.tools.segment_repair import RepairPlan, plan_repairs
from tierlog.tiering.tools.tier_check import check_segments, check_survey
from tierlog.tiering.tools.tier_survey import Finding, survey_tier

HISTORY = ((0, 0), (2, 13))


def two_segments() -> tuple[Bucket, list[RemoteLogSegmentMetadata]]:
    bucket = Bucket()
    topic = TopicDescription(1, {"retention.ms": "7"})
    return bucket, [
        bucket.put(1, (0, 9), HISTORY, topic=topic),
        bucket.put(2, (10, 29), HISTORY, topic=topic),
    ]


def repair(bucket: Bucket, known: list[RemoteLogSegmentMetadata] | None = None) -> RepairPlan:
    async def story() -> RepairPlan:
        remote_logs = None if known is None else {PARTITION: remote_log_of(PARTITION, known)}
        plan = await plan_repairs(bucket, await survey_tier(bucket), remote_logs)
        for each in plan.repairs:
            for key, content in each.objects:
                await bucket.write_bytes(key, content)
        return plan

    return asyncio.run(story())


def without_its_manifest(number: int) -> Bucket:
    """A bucket that has lost this manifest alone, repaired."""
    bucket, segments = two_segments()
    lost(bucket, object_key(segments[number], "manifest"))
    repair(bucket, segments)
    return bucket


def trouble(bucket: Bucket) -> list[Finding]:
    async def story() -> list[Finding]:
        survey = await survey_tier(bucket)
        findings = await check_survey(bucket, survey, None)
        return findings + await check_segments(bucket, survey, lambda _done, _total: None)

    return [each for each in asyncio.run(story()) if each.is_trouble]


def lost(bucket: Bucket, key: str) -> None:
    del bucket.objects[key]


def noise(bucket: Bucket, key: str) -> None:
    bucket.objects[key] = b"?" * (len(bucket.objects[key]) or 1)


WAYS = pytest.mark.parametrize("damage", [lost, noise])


def test_a_sound_bucket_is_left_alone() -> None:
    bucket, _ = two_segments()
    before = dict(bucket.objects)
    assert repair(bucket) == RepairPlan()
    assert bucket.objects == before


@WAYS
@pytest.mark.parametrize("suffix", ["index", "timeindex", "snapshot", "leader_epoch_checkpoint"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_small_part_is_rebuilt_from_others(
    damage: Callable[[Bucket, str], None], suffix: str, number: int
) -> None:
    bucket, segments = two_segments()
    damage(bucket, object_key(segments[number], suffix))
    assert trouble(bucket)
    plan = repair(bucket)
    assert plan.findings == []
    assert [each.metadata for each in plan.repairs] == [segments[number]]
    assert trouble(bucket) == []
    assert repair(bucket) == RepairPlan()


def test_a_manifest_that_cannot_be_read_is_rebuilt_from_the_batches() -> None:
    bucket, segments = two_segments()
    key = object_key(segments[1], "manifest")
    noise(bucket, key)
    assert repair(bucket).findings == []
    again = decode_manifest(bucket.objects[key])
    metadata = again.metadata
    assert (metadata.start_offset, metadata.end_offset) == (10, 29)
    assert metadata.segment_leader_epochs == ((0, 10), (2, 13))
    assert metadata.max_timestamp_ms == segments[1].max_timestamp_ms
    assert again.topic == TopicDescription(1, {"retention.ms": "7"})
    assert trouble(bucket) == []


@WAYS
@pytest.mark.parametrize("suffix", ["index", "timeindex", "snapshot", "leader_epoch_checkpoint"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_new_manifest_swears_to_no_damaged_part(
    damage: Callable[[Bucket, str], None], suffix: str, number: int
) -> None:
    bucket, segments = two_segments()
    key = object_key(segments[number], suffix)
    damage(bucket, key)
    noise(bucket, object_key(segments[number], "manifest"))
    assert repair(bucket).findings == []
    if suffix != "leader_epoch_checkpoint":
        assert bucket.objects[key] == without_its_manifest(number).objects[key]
    assert trouble(bucket) == []
    assert repair(bucket) == RepairPlan()


def test_one_wrong_bit_of_an_index_is_found_without_its_manifest() -> None:
    bucket, segments = two_segments()
    key = object_key(segments[1], "timeindex")
    bucket.damage(segments[1], "timeindex", 7)
    noise(bucket, object_key(segments[1], "manifest"))
    assert repair(bucket).findings == []
    assert bucket.objects[key] == without_its_manifest(1).objects[key]


@pytest.mark.parametrize("suffix", ["index", "timeindex", "snapshot", "leader_epoch_checkpoint"])
def test_a_part_that_says_nonsense_is_damaged_though_its_manifest_swears_to_it(suffix: str) -> None:
    bucket, segments = two_segments()
    forge(bucket, segments[1], suffix, b"?" * 25)
    (found,) = trouble(bucket)[:1]
    assert "`tierlog tier repair` writes this one again" in found.advice
    assert repair(bucket).findings == []
    assert trouble(bucket) == []


def test_a_producer_snapshot_knows_the_segment_whose_manifest_is_damaged() -> None:
    """Otherwise, the producers of that segment would be unknown at the end of the log."""
    bucket = Bucket()
    bucket.put(1, (0, 9))
    of_a_producer = build_control_batch(
        EndTransactionMarker(ControlRecordType.COMMIT, 0),
        5,
        base_offset=10,
        leader_epoch=0,
        producer_id=7,
        producer_epoch=0,
    )
    middle = bucket.put_log(2, bytes(of_a_producer))
    last = bucket.put(3, (11, 20))
    noise(bucket, object_key(middle, "manifest"))
    lost(bucket, object_key(middle, "snapshot"))
    lost(bucket, object_key(last, "snapshot"))
    assert repair(bucket).findings == []
    for each in (middle, last):
        (producer,) = decode_snapshot(bucket.objects[object_key(each, "snapshot")])
        assert producer.producer_id == 7


def test_a_missing_manifest_may_be_of_a_copy_under_way() -> None:
    bucket, segments = two_segments()
    key = object_key(segments[1], "manifest")
    lost(bucket, key)
    assert repair(bucket) == RepairPlan()
    # The metadata says that it was finished.
    assert repair(bucket, segments).findings == []
    assert decode_manifest(bucket.objects[key]).metadata == segments[1]
    assert trouble(bucket) == []


def test_the_log_itself_and_what_is_aborted_have_no_other_source() -> None:
    bucket, segments = two_segments()
    noise(bucket, object_key(segments[0], "log"))
    lost(bucket, object_key(segments[0], "index"))
    lost(bucket, object_key(segments[1], "log"))
    plan = repair(bucket)
    assert plan.repairs == []
    assert {each.key for each in plan.findings} == {
        object_key(segments[0], "index"),
        object_key(segments[1], "log"),
    }


def test_a_manifest_without_the_aborted_transactions_is_not_written() -> None:
    """Readers would take what was aborted for committed."""
    bucket = Bucket()
    abort = build_control_batch(
        EndTransactionMarker(ControlRecordType.ABORT, 0),
        5,
        base_offset=3,
        leader_epoch=0,
        producer_id=7,
        producer_epoch=0,
    )
    segment = bucket.put_log(1, batch_bytes((0, 2, 0)) + bytes(abort))
    key = object_key(segment, "manifest")
    noise(bucket, key)
    (finding,) = repair(bucket).findings
    assert finding.key == key
    assert "txnindex is missing" in finding.problem
