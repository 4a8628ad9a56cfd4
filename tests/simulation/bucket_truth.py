"""What a rebuild must make of a bucket, computed from what the story knows, and what it does make.

What is expected is found without the code under test: of the log that the newest segment was copied
from, each record that some whole segment in the bucket holds and announces. What is found is read
as a rebuilt broker reads: the segments of the plan, looked up by the plan's leader epochs, and the
bytes of their log objects.
"""

import asyncio
from itertools import pairwise
from typing import NamedTuple

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.batch import batches
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.producer.producer_snapshot import decode_snapshot
from tierlog.storage.remote.remote_lineage import epoch_of_offset
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tierlog.tests.simulation.bucket_replicas import Stored, Written
from tierlog.tests.simulation.bucket_story import NEIGHBOUR, TOPIC, BucketStory
from tierlog.tests.tiering.tools.bucket import Bucket
from tierlog.tiering.store.object_keys import MANIFEST_SUFFIX, object_key, partition_prefix
from tierlog.tiering.tools.lineage_choice import TierLineage, remote_log_of
from tierlog.tiering.tools.plan_rebuild import RebuildPlan, plan_rebuild
from tierlog.tiering.tools.rebuild_plan import PlannedPartition
from tierlog.tiering.tools.tier_check import check_segments, check_survey
from tierlog.tiering.tools.tier_survey import Finding, survey_tier

FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED

PRESENT = Uuid(b"the present one.")
"""In the place of the id of the incarnation that there is now."""

Records = dict[int, bytes]
"""The batch that holds an offset, as its leader wrote it."""


class Expected(NamedTuple):
    """What is to come back of the topic."""

    start: int
    end: int
    records: Records
    holes: tuple[tuple[int, int], ...]
    """Offsets of [start, end) that no segment holds, both ends inclusive."""
    tail: Stored
    newest: Stored
    """The segment that was copied last."""


def records_of(written: tuple[Written, ...] | list[Written], start: int) -> Records:
    """By offset, from `start` on."""
    return {
        offset: each.content
        for each in written
        for offset in range(each.first, each.last + 1)
        if offset >= start
    }


def whole_segments(story: BucketStory, bucket: Bucket) -> list[Stored]:
    """The segments of the topic that have a manifest and all that it names."""
    return [
        each
        for each in story.life.stored.values()
        if all(
            object_key(each.metadata, suffix) in bucket.objects
            for suffix in (MANIFEST_SUFFIX, *each.parts)
        )
    ]


def expected_of(story: BucketStory, bucket: Bucket) -> Expected | None:
    """See the module; None if no segment is whole."""
    whole = whole_segments(story, bucket)
    if not whole:
        return None
    tail = max(whole, key=lambda each: _age(each.metadata))
    its_log = records_of(tail.log, tail.log_start_offset)
    held: Records = {}
    for each in whole:
        first = each.metadata.segment_leader_epochs[0][1]
        for offset, content in records_of(each.log, first).items():
            within = each.metadata.start_offset <= offset <= each.metadata.end_offset
            if within and its_log.get(offset) == content:
                held[offset] = content
    end = tail.metadata.end_offset + 1
    start = min(held)
    deleted_below = {
        epochs[0][1]
        for metadata in (each.metadata for each in whole)
        if (epochs := metadata.segment_leader_epochs)[0][1] > metadata.start_offset
    }
    holes = _holes(held, start, end)
    for first, last in reversed(holes):
        if last + 1 in deleted_below and last + 1 in held:
            start = last + 1
            holes = [each for each in holes if each[0] > first]
            break
    records = {offset: each for offset, each in held.items() if offset >= start}
    newest = max(whole, key=lambda each: each.metadata.event_timestamp_ms)
    return Expected(start, end, records, tuple(holes), tail, newest)


def _age(metadata: RemoteLogSegmentMetadata) -> tuple[int, int, int]:
    epoch = metadata.segment_leader_epochs[-1][0]
    return (epoch, metadata.end_offset, metadata.event_timestamp_ms)


def _holes(held: Records, start: int, end: int) -> list[tuple[int, int]]:
    holes: list[tuple[int, int]] = []
    for offset in range(start, end):
        if offset in held:
            continue
        if holes and holes[-1][1] == offset - 1:
            holes[-1] = (holes[-1][0], offset)
        else:
            holes.append((offset, offset))
    return holes


def plan_of(
    story: BucketStory, bucket: Bucket, *, skip_holes: bool, chosen: Uuid | None = PRESENT
) -> RebuildPlan:
    """What a rebuild would do, if this incarnation is chosen, or none is."""

    async def plan() -> RebuildPlan:
        topic_id = story.life.partition.topic_id if chosen is PRESENT else chosen
        ids = () if topic_id is None else (topic_id,)
        survey = await survey_tier(bucket)
        return await plan_rebuild(bucket, survey, skip_holes=skip_holes, chosen=ids)

    return asyncio.run(plan())


def read_back(lineage: TierLineage, bucket: Bucket) -> Records:
    """The log of a plan, as a broker that was rebuilt from it reads it."""
    remote = remote_log_of(lineage.topic_id_partition, lineage.segments)
    history = lineage.history
    logs: dict[str, Records] = {}
    found: Records = {}
    for offset in range(lineage.log_start_offset, lineage.log_end_offset):
        epoch = epoch_of_offset(history, offset)
        segment = remote.segment_for(epoch, offset)
        assert segment is not None, f"the rebuilt log has no record at {offset} (epoch {epoch})"
        key = object_key(segment, "log")
        if key not in logs:
            logs[key] = _stored_records(bucket.objects[key])
        content = logs[key].get(offset)
        assert content is not None, f"{key} has no record at {offset}"
        (batch,) = batches(content)
        assert batch.partition_leader_epoch == epoch, (
            f"the batch at {offset} is of epoch {batch.partition_leader_epoch}, not {epoch}"
        )
        found[offset] = content
    return found


def _stored_records(log: bytes) -> Records:
    return {
        offset: bytes(each.view)
        for each in batches(log)
        for offset in range(each.base_offset, each.last_offset + 1)
    }


def check(story: BucketStory) -> None:
    """The bucket gives back what is in it, now."""
    bucket = story.bucket
    expected = expected_of(story, bucket)
    _count(story, expected)
    plan = plan_of(story, bucket, skip_holes=False)
    _check_neighbour(story, plan)
    _check_choice(story)
    planned = _partition(plan, story.life.partition)
    left = {each.topic_id for each in plan.left}
    names = [each.name for each in plan.topics]
    assert len(names) == len(set(names)), names
    if expected is None:
        # What is left of an incarnation before may come back, then.
        assert planned is None, "nothing is whole, and something comes back"
        return
    is_holed = bool(expected.holes)
    assert (planned is None) == is_holed, f"left out: {plan.left}, holes: {expected.holes}"
    assert (story.life.partition.topic_id in left) == is_holed
    if is_holed:
        last_lost = expected.holes[-1][1]
        story.counts["hole below the log start"] += (
            last_lost < story.life.leader.log.log_start_offset
        )
        plan = plan_of(story, bucket, skip_holes=True)
        planned = _partition(plan, story.life.partition)
        start = last_lost + 1
        records = {offset: each for offset, each in expected.records.items() if offset >= start}
        expected = expected._replace(start=start, records=records, holes=())
    assert planned is not None, plan.findings
    found = read_back(planned.lineage, bucket)
    assert found == expected.records, _difference(found, expected.records)
    assert planned.lineage.log_end_offset == expected.end
    story.counts["compared"] += 1
    _check_consumer(story, found, expected, expected.start if is_holed else 0)
    _check_producers(expected, planned)
    _check_topic(story, plan, expected)
    if not is_holed:
        _check_verify(story)
    _check_damaged(story, expected)


def _partition(plan: RebuildPlan, partition: TopicIdPartition) -> PlannedPartition | None:
    for topic in plan.topics:
        if topic.topic_id == partition.topic_id:
            return topic.partitions[partition.partition]
    return None


def _difference(found: Records, expected: Records) -> str:
    missing = sorted(expected.keys() - found.keys())
    more = sorted(found.keys() - expected.keys())
    other = sorted(each for each in found.keys() & expected.keys() if found[each] != expected[each])
    return f"missing: {missing}, more: {more}, other: {other}"


def _check_neighbour(story: BucketStory, plan: RebuildPlan) -> None:
    """Whatever happens to one topic, another comes back whole."""
    planned = _partition(plan, NEIGHBOUR)
    assert planned is not None, f"a topic keeps back another: {plan.findings}"
    lineage = planned.lineage
    assert (lineage.log_start_offset, lineage.log_end_offset, lineage.holes) == (0, 20, ())
    assert {each.id for each in lineage.segments} == {each.id for each in story.neighbours}


def _check_consumer(story: BucketStory, found: Records, expected: Expected, holes_end: int) -> None:
    """What a consumer can read from the tier now is in the rebuilt log, and no other records.

    After an unclean election the bucket shows the log of the leader before, until the new one has
    copied a segment of its own epoch. What was deleted from the log that the newest segment was
    copied from stays deleted, though a leader that has not heard of it shows it for a while.
    """
    leader = story.life.leader
    if expected.tail.log[-1] not in leader.ever:
        return
    log = leader.log
    mine = records_of(leader.written, log.log_start_offset)
    history, remote = story.life.history, story.life.remote
    for offset, content in mine.items():
        segment = remote.segment_for(epoch_of_offset(history, offset), offset)
        is_in_tier = segment is not None and segment.state is FINISHED
        if not is_in_tier or offset < max(expected.tail.log_start_offset, holes_end):
            continue
        assert found.get(offset) == content, f"a consumer reads {offset}, the rebuilt log does not"
    for offset, content in found.items():
        if offset >= log.log_start_offset:
            assert mine.get(offset) == content, f"{offset} is not what the leader has"
    story.counts["compared with a consumer"] += 1


def _check_producers(
    expected: Expected, planned: PlannedPartition, *, has_all_events: bool = True
) -> None:
    """Each producer is known by its last batch."""
    last: dict[int, int] = {}
    tail = expected.tail
    # A leader that had truncated its log knows producers from its log start on.
    known_from = max(tail.producers_from, tail.log_start_offset)
    for each in tail.log:
        if each.producer_id >= 0 and each.first >= known_from:
            last[each.producer_id] = each.last
    entries = decode_snapshot(planned.producer_snapshot)
    found = {each.producer_id: each.last_offset for each in entries}
    for producer_id, offset in last.items():
        # Of others no batch is left in the bucket, from which it could be told again.
        is_certain = has_all_events or offset >= planned.lineage.log_start_offset
        assert not is_certain or found.get(producer_id) == offset, (
            f"producer {producer_id}: {found}, {last}"
        )
    highest = max(each.segment_leader_epochs[-1][0] for each in planned.lineage.segments)
    assert planned.lineage.highest_epoch >= highest


def _check_topic(story: BucketStory, plan: RebuildPlan, expected: Expected) -> None:
    (topic,) = [each for each in plan.topics if each.topic_id == story.life.partition.topic_id]
    assert topic.is_config_known
    written = story.versions[expected.newest.metadata.id]
    assert topic.config["retention.ms"] == str(written)


def _check_verify(story: BucketStory) -> None:
    """Nothing is wrong with the bucket, and nobody says that there is."""

    async def verify() -> list[Finding]:
        survey = await survey_tier(story.bucket)
        only = survey.only({TOPIC})
        findings = [*await check_survey(story.bucket, only, None)]
        return findings + await check_segments(story.bucket, only, lambda _done, _total: None)

    trouble = [each for each in asyncio.run(verify()) if each.is_trouble]
    # An incarnation that is being deleted may have holes.
    own = [
        each
        for each in trouble
        if not any(partition_prefix(life.partition) in each.key for life in story.dying)
    ]
    own = [each for each in own if not story.is_half_deleted(each.key)]
    assert own == [], str(own[0])


def _count(story: BucketStory, expected: Expected | None) -> None:
    if expected is None:
        return
    counts = story.counts
    whole = whole_segments(story, story.bucket)
    counts["dead branch in the bucket"] += _has_dead_branch(whole)
    counts["rebuilt from the middle of a segment"] += any(
        each.metadata.start_offset < expected.start <= each.metadata.end_offset for each in whole
    )


def _has_dead_branch(whole: list[Stored]) -> bool:
    """Whether the bucket has segments of logs that differ: in one log, epochs never fall."""
    entries = sorted({(start, epoch) for one in whole for epoch, start in one.leader_epochs})
    ends_differ = any(newer[1] < older[1] for older, newer in pairwise(entries))
    batch_at: dict[int, bytes] = {}
    return ends_differ or any(
        batch_at.setdefault(offset, content) != content
        for one in whole
        for offset, content in records_of(one.log, 0).items()
    )


def _check_damaged(story: BucketStory, expected: Expected) -> None:
    """Some objects are lost, or are noise: the rest comes back, and the other topic."""
    whole = whole_segments(story, story.bucket)
    bucket = Bucket()
    bucket.objects = dict(story.bucket.objects)
    story.counts["damaged"] += 1
    if story.chance.random() < 0.4:
        _lose_a_replaceable_part(story, bucket, expected)
        return
    for lost in story.chance.sample(whole, min(len(whole), story.chance.choice((1, 1, 2, 3)))):
        suffix = story.chance.choice((MANIFEST_SUFFIX, "log", "index"))
        key = object_key(lost.metadata, suffix)
        if suffix == MANIFEST_SUFFIX and story.chance.random() < 0.5:
            bucket.objects[key] = b"noise"
        else:
            del bucket.objects[key]
    plan = plan_of(story, bucket, skip_holes=True)
    _check_neighbour(story, plan)
    planned = _partition(plan, story.life.partition)
    for each in whole:
        key = object_key(each.metadata, MANIFEST_SUFFIX)
        if bucket.objects.get(key) == b"noise":
            del bucket.objects[key]
    rest = expected_of(story, bucket)
    assert (planned is None) == (rest is None)
    if planned is None or rest is None:
        return
    story.counts["several holes"] += len(rest.holes) > 1
    start = rest.holes[-1][1] + 1 if rest.holes else rest.start
    records = {offset: each for offset, each in rest.records.items() if offset >= start}
    found = read_back(planned.lineage, bucket)
    assert found == records, _difference(found, records)


def _lose_a_replaceable_part(story: BucketStory, bucket: Bucket, expected: Expected) -> None:
    """One part is lost that can be told from others: everything comes back."""
    whole = whole_segments(story, story.bucket)
    lost = story.chance.choice((expected.tail, story.chance.choice(whole)))
    suffix = story.chance.choice(("snapshot", "leader_epoch_checkpoint"))
    key = object_key(lost.metadata, suffix)
    if story.chance.random() < 0.5:
        bucket.objects[key] = b"noise" + bucket.objects[key][5:]
    else:
        del bucket.objects[key]
    plan = plan_of(story, bucket, skip_holes=True)
    _check_neighbour(story, plan)
    planned = _partition(plan, story.life.partition)
    if planned is None and suffix == "leader_epoch_checkpoint":
        # Only the tail's own history tells a branch that was cut off from one that was not.
        (left,) = [each for each in plan.left if each.name == TOPIC]
        assert "several branches" in left.reasons[0]
        assert _has_dead_branch(whole)
        return
    assert planned is not None, plan.left
    found = read_back(planned.lineage, bucket)
    again = {each: found[each] for each in found if each >= expected.start}
    assert again == expected.records, (suffix, _difference(again, expected.records))
    _check_producers(expected, planned, has_all_events=False)


def _check_choice(story: BucketStory) -> None:
    """Of several incarnations, the one that is chosen comes back, and none that is not."""
    manifests = asyncio.run(survey_tier(story.bucket)).manifests.values()
    ids = {
        each.metadata.topic_id_partition.topic_id
        for each in manifests
        if each.metadata.topic_id_partition.topic == TOPIC
    }
    if len(ids) < 2:
        return
    story.counts["topics of one name"] += 1
    for chosen in (None, *ids):
        plan = plan_of(story, story.bucket, skip_holes=True, chosen=chosen)
        _check_neighbour(story, plan)
        back = [each.topic_id for each in plan.topics if each.name == TOPIC]
        assert back == ([] if chosen is None else [chosen]), (chosen, back)
