"""What is nobody's in a tier, and when it may go."""

from collections.abc import Iterable

import pytest

from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)
from tierlog.tests.tiering.segments import PARTITION, segment_metadata
from tierlog.tiering.store.object_keys import object_key
from tierlog.tiering.store.tier_store import TierObject
from tierlog.tiering.tools.orphans import Looks, Orphan, find_orphans
from tierlog.tiering.tools.stored_segments import sort_out

HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000
WHOLE = ("log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint", "manifest")
STATE = RemoteLogSegmentState


def objects(
    metadata: RemoteLogSegmentMetadata,
    suffixes: Iterable[str] = WHOLE,
    modified_ms: int | None = NOW_MS - 2 * HOUR_MS,
) -> list[TierObject]:
    return [TierObject(object_key(metadata, suffix), 10, modified_ms) for suffix in suffixes]


def known_in(metadata: RemoteLogSegmentMetadata, *states: RemoteLogSegmentState) -> RemoteLog:
    remote = RemoteLog(metadata.topic_id_partition)
    remote.apply_copy_started(metadata)
    for state in states:
        remote.apply_update(
            RemoteLogSegmentMetadataUpdate(
                segment_id=metadata.segment_id, event_timestamp_ms=1, state=state, broker_id=0
            )
        )
    return remote


def found(stored: list[TierObject], remote: RemoteLog | None) -> list[Orphan]:
    known = {} if remote is None else {PARTITION: remote}
    return find_orphans(sort_out(stored), known)


@pytest.mark.parametrize(
    "states",
    [
        (),
        (STATE.COPY_SEGMENT_FINISHED,),
        (STATE.DELETE_SEGMENT_STARTED,),
        (STATE.COPY_SEGMENT_FINISHED, STATE.DELETE_SEGMENT_STARTED),
    ],
)
def test_what_the_metadata_knows_is_nobodys_orphan(
    states: tuple[RemoteLogSegmentState, ...],
) -> None:
    """A copy under way least of all: its leader lives, or the next one cleans up after it."""
    metadata = segment_metadata(1)
    assert found(objects(metadata), known_in(metadata, *states)) == []


def test_a_segment_whose_deletion_was_finished_has_no_objects() -> None:
    metadata = segment_metadata(1)
    gone = known_in(metadata, STATE.DELETE_SEGMENT_STARTED, STATE.DELETE_SEGMENT_FINISHED)
    (orphan,) = found(objects(metadata), gone)
    assert orphan.is_of_known_partition
    # The manifest first: half a segment must not look whole.
    assert orphan.objects[0].key.endswith(".manifest")
    assert len(orphan.objects) == len(WHOLE)
    assert orphan.nbytes == 10 * len(WHOLE)


@pytest.mark.parametrize(
    ("suffixes", "reason"),
    [
        (WHOLE, "a complete segment that is not in the metadata"),
        (("log", "index"), "left over from an unfinished copy"),
    ],
)
def test_what_an_attempt_left_behind_is_an_orphan(suffixes: tuple[str, ...], reason: str) -> None:
    other = known_in(segment_metadata(2), STATE.COPY_SEGMENT_FINISHED)
    (orphan,) = found(objects(segment_metadata(1), suffixes), other)
    assert orphan.reason == reason


def test_what_is_left_of_a_deleted_topic_is_an_orphan() -> None:
    remote = RemoteLog(PARTITION)
    remote.apply_partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED)
    (orphan,) = found(objects(segment_metadata(1)), remote)
    assert orphan.reason == "left over from a deleted topic"


def test_a_partition_never_heard_of_may_be_another_clusters() -> None:
    (orphan,) = found(objects(segment_metadata(1)), None)
    assert not orphan.is_of_known_partition


def test_a_piece_of_an_upload_beside_a_finished_segment_is_an_orphan() -> None:
    metadata = segment_metadata(1)
    finished = known_in(metadata, STATE.COPY_SEGMENT_FINISHED)
    (orphan,) = found(objects(metadata, (*WHOLE, "log.tmp")), finished)
    assert [each.key.rpartition(".")[2] for each in orphan.objects] == ["tmp"]
    # While the copy goes on it is the copier's.
    assert found(objects(metadata, ("log.tmp",)), known_in(metadata)) == []


def test_objects_that_are_not_ours_are_left_alone() -> None:
    listing = sort_out([TierObject("README.txt", 1, 0), TierObject("logs/a-0/x.log", 1, 0)])
    assert len(listing.foreign) == 2
    assert find_orphans(listing, {}) == []


def orphan(modified_ms: int | None, number: int = 1) -> Orphan:
    stored = objects(segment_metadata(number), ("log",), modified_ms)
    (one,) = found(stored, RemoteLog(PARTITION))
    return one


def test_an_orphan_goes_only_at_the_second_look() -> None:
    looks = Looks(HOUR_MS)
    old = orphan(NOW_MS - 2 * HOUR_MS)
    assert looks.ripe([old], NOW_MS) == []
    assert looks.ripe([old], NOW_MS + 1) == [old]


def test_what_was_no_orphan_in_between_begins_anew() -> None:
    looks = Looks(HOUR_MS)
    old = orphan(NOW_MS - 2 * HOUR_MS)
    looks.ripe([old], NOW_MS)
    looks.ripe([], NOW_MS + 1)
    assert looks.ripe([old], NOW_MS + 2) == []


@pytest.mark.parametrize(("age_ms", "goes"), [(HOUR_MS - 1, False), (HOUR_MS, True), (-5, False)])
def test_nothing_younger_than_the_grace_time_goes(age_ms: int, goes: bool) -> None:
    looks = Looks(HOUR_MS)
    one = orphan(NOW_MS - age_ms)
    looks.ripe([one], NOW_MS)
    assert bool(looks.ripe([one], NOW_MS)) == goes


def test_where_the_store_tells_no_time_the_first_look_counts() -> None:
    looks = Looks(HOUR_MS)
    one = orphan(None)
    assert looks.ripe([one], NOW_MS) == []
    assert looks.ripe([one], NOW_MS + HOUR_MS - 1) == []
    assert looks.ripe([one], NOW_MS + HOUR_MS) == [one]


@pytest.mark.parametrize(
    "stray",
    [
        "orders-0-AAAAAAAAAAAAAAAAAAAAAA/{name}",
        "backup/{folder}/{name}",
        "{folder}/00000000000000000000-0-{id}.log",
    ],
)
def test_an_object_with_the_id_of_a_live_segment_takes_none_of_its_objects_along(
    stray: str,
) -> None:
    """Whoever copies objects about in a bucket copies their names, and an id is part of a name."""
    live = segment_metadata(1, offsets=(50, 59), epochs=((0, 50),))
    stored = objects(live)
    folder, name = stored[0].key.split("/")
    key = stray.format(folder=folder, name=name, id=name.split(".")[0][-22:])
    known = known_in(live, STATE.COPY_SEGMENT_FINISHED)
    orphans = found([*stored, TierObject(key, 10, NOW_MS - 2 * HOUR_MS)], known)
    removed = {each.key for orphan in orphans for each in orphan.objects}
    assert removed <= {key}
