"""Scans that read of a tier what they need: the same tasks as from all of it, in few requests."""

import asyncio
import json
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, event, given, settings

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.pipeline.reading import partial_lineage as partial_lineage_module
from tierlog.pipeline.reading.manifest_cache import CachingTier, ObjectCache
from tierlog.pipeline.reading.scan import plan_on, read_task
from tierlog.pipeline.reading.scan_bounds import narrow, scan_ranges
from tierlog.pipeline.reading.scan_options import ScanError, ScanOptions, scan_options
from tierlog.pipeline.reading.scan_task import ScanTask
from tierlog.pipeline.reading.task_planner import plan_ranges
from tierlog.pipeline.reading.tier_lineages import TierLineages
from tierlog.tests.pipeline.reading.counted_tier import CountedTier
from tierlog.tests.pipeline.reading.random_tiers import (
    RandomTier,
    random_options,
    random_tiers,
)
from tierlog.tests.pipeline.spark.folder_tier import TOPIC
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tests.tiering.tools.bucket import Bucket
from tierlog.tiering.store.object_keys import object_key

SEGMENT_OFFSETS = 10


def options_of(directory: Path, **stated: str) -> ScanOptions:
    what = {} if "assign" in stated else {"topic": TOPIC}
    return scan_options({"path": str(directory), **what, **stated})


async def planned_from_everything(bucket: Bucket, options: ScanOptions) -> list[ScanTask]:
    """The tasks as all manifests of the topic decide them."""
    tier = CountedTier(bucket)
    view = await TierLineages.of(tier, options).look()
    ranges = narrow(await scan_ranges(tier, view, options), options.row_filter)
    return await plan_ranges(tier, view, options, ranges)


def outcome(plan: Coroutine[object, object, list[ScanTask]]) -> list[ScanTask] | str:
    """The tasks, or the error's one line."""
    try:
        return asyncio.run(plan)
    except ScanError as error:
        return str(error)


def rows_of(options: ScanOptions, tasks: list[ScanTask]) -> list[tuple[int, int, bytes]]:
    """Partition, offset and value (which has the leader epoch) of all rows."""
    return sorted(
        (row["partition"], row["offset"], row["value"])
        for task in tasks
        for batch in read_task(options, task)
        for row in cast("Any", batch).to_pylist()
    )


@given(random_tiers(), random_options())
@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_scan_reads_what_it_would_if_it_looked_at_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tier: RandomTier, stated: dict[str, str]
) -> None:
    """Damage that the scan does not need may go unnoticed; the rows are then those without it."""
    monkeypatch.setattr(partial_lineage_module, "FEW_SEGMENTS", 0)
    directory = Path(tempfile.mkdtemp(dir=tmp_path))
    options = options_of(directory, **stated)
    counted = CountedTier(tier.bucket)
    ours = outcome(plan_on(counted, options))
    expected = outcome(planned_from_everything(tier.bucket, options))
    if ours != expected and isinstance(expected, str):
        assert tier.damaged, (ours, expected)
        expected = outcome(planned_from_everything(tier.without_damaged(), options))
    in_tier = sum(key.endswith(".manifest") for key in tier.bucket.objects)
    looked_at = "a part" if len(counted.manifests) < in_tier else "everything"
    event(f"{'an error' if isinstance(ours, str) else 'tasks'} from {looked_at}")
    if isinstance(ours, str):
        assert ours == expected or any(stem in ours for stem in tier.damaged)
    elif ours != expected:
        event("another copy of the same records")
        assert not isinstance(expected, str), (ours, expected)
        tier.bucket.write_to(directory)
        assert rows_of(options, ours) == rows_of(options, expected)


def uniform(partitions: int, segments: int) -> Bucket:
    """Partitions of segments of ten offsets."""
    bucket, model = Bucket(), Bucket()
    for number in range(partitions):
        partition = TopicIdPartition(PARTITION.topic_id, TOPIC, number)
        for each in range(segments):
            first = each * SEGMENT_OFFSETS
            model.put(each + 1, (first, first + SEGMENT_OFFSETS - 1), partition=partition)
    bucket.objects = model.objects
    return bucket


def offsets(partition: int, first: int, end: int) -> dict[str, str]:
    return {
        "partition": str(partition),
        "startingOffsets": json.dumps({TOPIC: {str(partition): first}}),
        "endingOffsets": json.dumps({TOPIC: {str(partition): end}}),
    }


@pytest.mark.parametrize(("partitions", "segments"), [(10, 60), (1, 600)])
def test_a_short_range_costs_a_few_requests_however_long_the_topic_is(
    tmp_path: Path, partitions: int, segments: int
) -> None:
    """A listing of one entry a segment, and three segments: the tail, and two of the range."""
    middle = segments // 2 * SEGMENT_OFFSETS
    tier = CountedTier(uniform(partitions, segments))
    options = options_of(tmp_path, **offsets(0, middle + 5, middle + 15))
    (task,) = asyncio.run(plan_on(tier, options))
    assert (task.first_offset, task.end_offset) == (middle + 5, middle + 15)
    assert tier.requests == {
        "list": 2 + 3,
        "manifest": 3,
        "leader_epoch_checkpoint": 1,
        "index": 2,
    }


def test_a_range_to_the_end_reads_one_segment_more(tmp_path: Path) -> None:
    tier = CountedTier(uniform(1, 100))
    options = options_of(tmp_path, startingOffsets=json.dumps({TOPIC: {"0": 975}}))
    (task,) = asyncio.run(plan_on(tier, options))
    assert (task.first_offset, task.end_offset) == (975, 1000)
    # That of the range, two after it, and the one before it.
    assert tier.requests["manifest"] == 4


def test_of_a_caught_up_partition_nothing_but_its_end_is_read(tmp_path: Path) -> None:
    tier = CountedTier(uniform(1, 100))
    assert asyncio.run(plan_on(tier, options_of(tmp_path, **offsets(0, 1000, 1000)))) == []
    assert tier.requests["manifest"] == 1


def test_of_other_partitions_no_manifest_is_read(tmp_path: Path) -> None:
    tier = CountedTier(uniform(10, 20))
    tasks = asyncio.run(plan_on(tier, options_of(tmp_path, partition="3")))
    assert sum(len(task.ranges) for task in tasks) == 20
    assert len(tier.manifests) == 20


def test_what_an_unclean_election_cut_off_is_not_read_though_its_segments_start_last(
    tmp_path: Path,
) -> None:
    bucket = uniform(1, 30)
    bucket.put(31, (45, 64), ((0, 0), (1, 50)))
    beyond = outcome(plan_on(CountedTier(bucket), options_of(tmp_path, **offsets(0, 100, 110))))
    assert "Offset 100 of orders-0 is not in the tier, which holds 0 to 64" in str(beyond)
    options = options_of(tmp_path, **offsets(0, 48, 55))
    tasks = asyncio.run(plan_on(CountedTier(bucket), options))
    assert tasks == asyncio.run(planned_from_everything(bucket, options))
    bucket.write_to(tmp_path)
    assert [value.split()[0] for _, _, value in rows_of(options, tasks)] == [
        *(b"48/0", b"49/0"),
        *(b"%d/1" % offset for offset in range(50, 55)),
    ]


def test_of_two_topics_of_a_name_all_manifests_decide(tmp_path: Path) -> None:
    bucket = uniform(1, 20)
    partition = TopicIdPartition(Uuid(b"another topic id"), TOPIC, 0)
    bucket.put(99, (0, 9), partition=partition)
    tier = CountedTier(bucket)
    (task,) = asyncio.run(plan_on(tier, options_of(tmp_path, **offsets(0, 2, 4))))
    assert (task.first_offset, task.end_offset) == (2, 4)
    assert len(tier.manifests) == 21


@pytest.mark.parametrize("stated", [{}, {"startingTimestamp": "300"}])
def test_a_second_scan_of_a_process_reads_no_manifest_again(
    tmp_path: Path, stated: dict[str, str]
) -> None:
    cache, bucket = ObjectCache(), uniform(2, 30)
    options = options_of(tmp_path, **stated)
    first, second = CountedTier(bucket), CountedTier(bucket)
    before = asyncio.run(plan_on(CachingTier(first, options.location, cache), options))
    after = asyncio.run(plan_on(CachingTier(second, options.location, cache), options))
    assert before == after
    assert (first.requests["manifest"], first.requests["leader_epoch_checkpoint"]) == (60, 2)
    assert (second.requests["manifest"], second.requests["leader_epoch_checkpoint"]) == (0, 0)


def test_what_is_new_or_gone_is_seen_though_the_rest_is_kept(tmp_path: Path) -> None:
    cache, bucket = ObjectCache(), Bucket()
    first = bucket.put(1, (0, 9))
    bucket.put(2, (10, 19))
    options = options_of(tmp_path)

    def ends() -> tuple[int, int, int]:
        tier = CountedTier(bucket)
        (task,) = asyncio.run(plan_on(CachingTier(tier, options.location, cache), options))
        return task.first_offset, task.end_offset, len(tier.manifests)

    assert ends() == (0, 20, 2)
    bucket.put(3, (20, 29))
    assert ends() == (0, 30, 1)
    for suffix in ("log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint", "manifest"):
        del bucket.objects[object_key(first, suffix)]
    assert ends() == (10, 30, 0)


def test_the_cache_keeps_what_was_used_last_within_its_bound(tmp_path: Path) -> None:
    cache, bucket = ObjectCache(bytes_max=20_000), uniform(1, 100)
    options = options_of(tmp_path)
    tier = CountedTier(bucket)
    asyncio.run(plan_on(CachingTier(tier, options.location, cache), options))
    assert 10_000 < cache.nbytes <= 20_000


def test_another_tier_has_other_objects_under_the_same_keys(tmp_path: Path) -> None:
    cache, bucket = ObjectCache(), uniform(1, 5)
    for name in ("one", "other"):
        tier = CountedTier(bucket)
        options = options_of(tmp_path / name)
        asyncio.run(plan_on(CachingTier(tier, options.location, cache), options))
        assert len(tier.manifests) == 5


def test_damage_that_no_range_needs_does_not_end_a_scan(tmp_path: Path) -> None:
    bucket = uniform(1, 40)
    key = next(each for each in bucket.objects if each.endswith("manifest"))
    bucket.objects[key] = b"?"
    assert "cannot be read" in str(outcome(plan_on(CountedTier(bucket), options_of(tmp_path))))
    within = options_of(tmp_path, **offsets(0, 3, 5))
    assert "cannot be read" in str(outcome(plan_on(CountedTier(bucket), within)))
    (task,) = asyncio.run(plan_on(CountedTier(bucket), options_of(tmp_path, **offsets(0, 30, 50))))
    assert (task.first_offset, task.end_offset) == (30, 50)
