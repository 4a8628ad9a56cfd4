"""A scrub, look after look, over a bucket and the metadata of its cluster."""

from collections.abc import Mapping

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tests.tiering.tools.bucket import WRITTEN_MS, Bucket
from tierlog.tiering.store.object_keys import object_key
from tierlog.tiering.tools.lineage_choice import remote_log_of
from tierlog.tiering.tools.scrubber import Scrubber

HOUR_MS = 3_600_000


class Cluster:
    """What a scrub asks of a cluster: its metadata, and the time."""

    def __init__(self, known: Mapping[TopicIdPartition, RemoteLog]) -> None:
        self.known = known
        self.is_readable = True
        self.now_ms = WRITTEN_MS + 2 * HOUR_MS

    async def metadata(self) -> Mapping[TopicIdPartition, RemoteLog]:
        if not self.is_readable:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "The metadata is not complete")
        return self.known

    def wall_clock_ms(self) -> int:
        return self.now_ms


def scrubber(bucket: Bucket, cluster: Cluster, *, unknown: bool = False) -> Scrubber:
    return Scrubber(
        bucket, cluster.metadata, cluster.wall_clock_ms, HOUR_MS, unknown_partitions=unknown
    )


async def test_after_two_looks_no_orphan_is_left_and_nothing_else_is_gone() -> None:
    bucket = Bucket()
    finished = bucket.put(1, (0, 9))
    kept = set(bucket.objects)
    # Another attempt at the same segment, which nobody told of.
    bucket.put(2, (0, 9))
    cluster = Cluster({PARTITION: remote_log_of(PARTITION, [finished])})
    scrub = scrubber(bucket, cluster)
    assert await scrub.remove((await scrub.look()).ripe) == 0
    look = await scrub.look()
    assert await scrub.remove(look.ripe) == 6
    assert set(bucket.objects) == kept
    # The manifest goes first: half a segment must not look whole.
    assert bucket.removed[0].endswith(".manifest")
    assert (await scrub.look()).orphans == []


@pytest.mark.parametrize("is_explicit", [False, True])
async def test_a_whole_segment_that_the_metadata_lost_stays_by_default(
    is_explicit: bool,
) -> None:
    """A clone's metadata lacks what the original copies; an emptied topic lacks everything."""
    bucket = Bucket()
    first = bucket.put(1, (0, 9))
    second = bucket.put(2, (10, 19))
    cluster = Cluster({PARTITION: remote_log_of(PARTITION, [first])})
    scrub = Scrubber(
        bucket, cluster.metadata, cluster.wall_clock_ms, HOUR_MS, unknown_segments=is_explicit
    )
    await scrub.look()
    look = await scrub.look()
    (orphan,) = look.orphans
    assert orphan.is_whole
    assert orphan.id == second.id
    assert look.ripe == ([orphan] if is_explicit else [])


async def test_what_is_young_stays() -> None:
    bucket = Bucket()
    del bucket.objects[object_key(bucket.put(2, (10, 19)), "manifest")]
    cluster = Cluster({PARTITION: RemoteLog(PARTITION)})
    cluster.now_ms = WRITTEN_MS + HOUR_MS - 1
    scrub = scrubber(bucket, cluster)
    assert (await scrub.look()).ripe == []
    assert (await scrub.look()).ripe == []
    cluster.now_ms += 1
    assert len((await scrub.look()).ripe) == 1


@pytest.mark.parametrize("unknown", [False, True])
async def test_another_clusters_partitions_are_left_alone_by_default(
    unknown: bool,
) -> None:
    bucket = Bucket()
    bucket.put(1, (0, 9))
    scrub = scrubber(bucket, Cluster({}), unknown=unknown)
    await scrub.look()
    look = await scrub.look()
    assert len(look.orphans) == 1
    assert len(look.ripe) == int(unknown)


async def test_without_the_whole_metadata_nothing_is_decided() -> None:
    bucket = Bucket()
    bucket.put(1, (0, 9))
    cluster = Cluster({PARTITION: RemoteLog(PARTITION)})
    cluster.is_readable = False
    scrub = scrubber(bucket, cluster)
    for _ in range(3):
        with pytest.raises(KafkaError):
            await scrub.look()
    assert bucket.removed == []
