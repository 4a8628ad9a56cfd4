"""Verifying a tier: whatever is damaged is found, and what is sound is not complained of."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteState,
)
from tierlog.tests.tiering.remote_partition import PARTITION, batch_bytes
from tierlog.tests.tiering.tools.bucket import OFFSET_ENTRY, TIME_ENTRY, Bucket, forge
from tierlog.tiering.remote_storage import RemoteStorageError
from tierlog.tiering.store.manifest import decode_manifest, encode_manifest
from tierlog.tiering.store.object_keys import object_key
from tierlog.tiering.store.tier_store import TierObject
from tierlog.tiering.tools import segment_check
from tierlog.tiering.tools.lineage_choice import finished_event, remote_log_of
from tierlog.tiering.tools.tier_check import check_segments, check_survey
from tierlog.tiering.tools.tier_survey import Finding, survey_tier

HISTORY = ((0, 0), (2, 13))


def silent(_done: int, _total: int) -> None:
    """Nobody watches."""


def verify(bucket: Bucket, known: RemoteLog | None = None) -> list[Finding]:
    async def story() -> list[Finding]:
        survey = await survey_tier(bucket)
        findings = await check_survey(bucket, survey, None if known is None else {PARTITION: known})
        return findings + await check_segments(bucket, survey, silent)

    return asyncio.run(story())


def two_segments() -> tuple[Bucket, RemoteLogSegmentMetadata, RemoteLogSegmentMetadata]:
    bucket = Bucket()
    return (
        bucket,
        bucket.put(1, (0, 9), HISTORY),
        bucket.put(2, (10, 29), HISTORY),
    )


def test_a_sound_tier_has_no_findings() -> None:
    bucket, first, second = two_segments()
    assert verify(bucket, remote_log_of(PARTITION, [first, second])) == []


def test_pieces_that_cut_through_batches_make_no_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucket, _, _ = two_segments()
    for size in (1, 61, 100, 1000):
        monkeypatch.setattr(segment_check, "PIECE_BYTES", size)
        assert verify(bucket) == []


@pytest.mark.parametrize(
    "suffix", ["log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint"]
)
def test_one_bit_anywhere_is_found(suffix: str) -> None:
    for segment in (0, 1):
        for where in (0, -1):
            bucket, *segments = two_segments()
            bucket.damage(segments[segment], suffix, where)
            findings = verify(bucket)
            assert any(each.is_trouble for each in findings)
            assert object_key(segments[segment], suffix) in {each.key for each in findings}


@pytest.mark.parametrize("suffix", ["log", "index", "leader_epoch_checkpoint"])
def test_a_missing_part_is_found_by_name(suffix: str) -> None:
    bucket, first, _ = two_segments()
    del bucket.objects[object_key(first, suffix)]
    findings = verify(bucket)
    assert f"{suffix} is missing" in str(findings[0])
    # And so are its offsets, for nobody can read them now.
    assert any("no segment holds" not in str(each) for each in findings)


@pytest.mark.parametrize("suffix", ["index", "timeindex", "snapshot", "leader_epoch_checkpoint"])
def test_what_stands_beside_a_whole_log_is_no_loss_of_records(suffix: str) -> None:
    bucket, first, _ = two_segments()
    del bucket.objects[object_key(first, suffix)]
    assert "the records are not lost" in str(verify(bucket)[0])
    bucket, first, _ = two_segments()
    bucket.damage(first, suffix, -1)
    mine = [each for each in verify(bucket) if each.key == object_key(first, suffix)]
    assert mine
    assert all("the records are not lost" in each.advice for each in mine if each.is_trouble)


def test_what_stands_beside_a_damaged_log_may_be_a_loss_of_records() -> None:
    bucket, first, _ = two_segments()
    del bucket.objects[object_key(first, "index")]
    del bucket.objects[object_key(first, "log")]
    assert "accept the loss of the segment's records" in verify(bucket)[0].advice
    bucket, first, _ = two_segments()
    bucket.damage(first, "index", -1)
    bucket.damage(first, "log", -1)
    assert {each.advice for each in verify(bucket) if "not lost" in each.advice} == set()


def test_a_damaged_manifest_is_a_finding_and_no_crash() -> None:
    bucket, first, _ = two_segments()
    bucket.objects[object_key(first, "manifest")] = b"\x81\xa1"
    (finding, *_) = verify(bucket)
    assert finding.key == object_key(first, "manifest")
    assert "cannot be read" in finding.problem


def test_a_manifest_under_another_segments_key_is_found() -> None:
    bucket, first, second = two_segments()
    key = object_key(first, "manifest")
    bucket.objects[key] = bucket.objects[object_key(second, "manifest")]
    assert "to another segment" in str(verify(bucket)[0])


def trimmed() -> tuple[Bucket, RemoteLogSegmentMetadata, RemoteLogSegmentMetadata]:
    """A log that began at offset 5 when its first segment, [0, 9], was copied."""
    bucket = Bucket()
    return (
        bucket,
        bucket.put(1, (0, 9), HISTORY, log_start=5),
        bucket.put(2, (10, 29), HISTORY, log_start=5),
    )


def test_a_segment_in_whose_midst_the_log_began_is_sound() -> None:
    """DeleteRecords into a segment that is copied later, or retention and another leader.

    Its epochs begin at the log start, as Kafka's do: what they do not tell of is no damage.
    """
    bucket, first, second = trimmed()
    assert first.segment_leader_epochs == ((0, 5),)
    assert verify(bucket, remote_log_of(PARTITION, [first, second])) == []


def test_what_lies_below_the_log_start_of_a_segment_is_checked_all_the_same() -> None:
    bucket, first, second = trimmed()
    bucket.damage(first, "log", 70)
    assert "the batch at offset 0 does not match its CRC" in str(verify(bucket)[0])
    # A leader epoch never falls within a log.
    bucket, first, second = trimmed()
    batches = b"".join(batch_bytes(each) for each in ((0, 2, 0), (3, 3, 4), (4, 6, 0), (7, 9, 0)))
    forge(bucket, first, "index", b"")
    forge(bucket, first, "log", batches)
    findings = verify(bucket, remote_log_of(PARTITION, [first, second]))
    assert [each.problem for each in findings] == [
        "the batch at offset 3 has leader epoch 4, not at most 0"
    ]


def test_a_log_that_began_in_the_midst_of_a_later_segment_has_no_hole_there() -> None:
    """Retention had taken 10 to 19, and the leader of epoch 1 has cut its segments elsewhere.

    The objects of 0 to 9 are still to be removed, or were left.
    """
    bucket = Bucket()
    history = ((0, 0), (1, 25))
    bucket.put(1, (0, 9), history)
    bucket.put(2, (15, 24), history, log_start=20)
    # This leader had not heard of the log start of the one before it.
    bucket.put(3, (25, 29), history)
    assert not any(each.is_trouble for each in verify(bucket))


@pytest.mark.parametrize("epochs", [((0, 12),), ((0, 0), (3, 12))])
def test_a_manifest_that_contradicts_itself_is_found(epochs: tuple[tuple[int, int], ...]) -> None:
    bucket, first, _ = two_segments()
    key = object_key(first, "manifest")
    manifest = decode_manifest(bucket.objects[key])
    metadata = replace(manifest.metadata, segment_leader_epochs=epochs)
    bucket.objects[key] = encode_manifest(manifest._replace(metadata=metadata))
    finding = next(each for each in verify(bucket) if each.key == key)
    assert "do not match the offsets 0 to 9" in finding.problem
    assert finding.is_trouble


def test_a_copy_of_a_segment_is_a_note_that_names_the_other() -> None:
    bucket = Bucket()
    copies = [bucket.put(number, (0, 9)) for number in (1, 2)]
    (finding,) = verify(bucket)
    assert "is a copy of" in finding.problem
    assert not finding.is_trouble
    assert {finding.key, finding.problem.rpartition(" ")[2]} == {
        object_key(each, "manifest") for each in copies
    }
    assert finding.offsets == (0, 9)


def test_objects_that_no_manifest_names_are_notes() -> None:
    bucket, first, second = two_segments()
    stray = object_key(first, "log.tmp")
    another = second.segment_id._replace(id=PARTITION.topic_id)
    unfinished = object_key(replace(second, segment_id=another), "log")
    for key in (stray, unfinished, "somebody/elses"):
        bucket.objects[key] = b"?"
    findings = verify(bucket)
    keys = {stray, unfinished.removesuffix(".log"), "somebody/elses"}
    assert {each.key for each in findings} == keys
    assert not any(each.is_trouble for each in findings)


def test_a_hole_between_segments_is_found() -> None:
    bucket = Bucket()
    bucket.put(1, (0, 9))
    bucket.put(3, (20, 29))
    (finding,) = verify(bucket)
    assert "10 to 19" in finding.problem
    assert finding.is_trouble


def test_a_dead_branch_is_a_note() -> None:
    bucket = Bucket()
    bucket.put(1, (0, 9), ((0, 0),))
    bucket.put(2, (0, 5), ((0, 0), (1, 3)))
    bucket.put(3, (3, 4), ((0, 0),))
    findings = verify(bucket)
    assert findings
    assert not any(each.is_trouble for each in findings)


def test_an_unreachable_store_is_an_error_and_never_a_sound_tier() -> None:
    bucket, _, _ = two_segments()
    bucket.is_down = True
    with pytest.raises(RemoteStorageError):
        verify(bucket)


def batches_of(*ranges: tuple[int, int, int]) -> bytes:
    return b"".join(map(batch_bytes, ranges))


Forger = Callable[[], tuple[str, bytes, str]]

FORGED: dict[str, Forger] = {
    "the log repeats offsets": lambda: (
        "log",
        batches_of((0, 2, 0), (2, 9, 0)),
        "offset 3 was expected",
    ),
    "the log goes on too far": lambda: ("log", batches_of((0, 11, 0)), "ends before offset 12"),
    "the log ends within a batch": lambda: ("log", batches_of((0, 9, 0))[:-1], "within a batch"),
    "a batch is of another leader": lambda: (
        "log",
        batches_of((0, 4, 0), (5, 9, 7)),
        "leader epoch 7, not 0",
    ),
    "the log is no log": lambda: ("log", b"\x00" * 200, "the rest of the log cannot be read"),
    "the index points into a batch": lambda: (
        "index",
        OFFSET_ENTRY.pack(2, 0) + OFFSET_ENTRY.pack(5, 7),
        "middle of a batch",
    ),
    "the index points beyond the log": lambda: (
        "index",
        OFFSET_ENTRY.pack(2, 1 << 20),
        "beyond the end",
    ),
    "the index leads past the offset": lambda: (
        "index",
        OFFSET_ENTRY.pack(1, len(batch_bytes((0, 2, 0)))),
        "points past the batch",
    ),
    "the index does not ascend": lambda: (
        "index",
        OFFSET_ENTRY.pack(2, 0) + OFFSET_ENTRY.pack(1, 0),
        "are out of order",
    ),
    "the index is cut": lambda: ("index", b"\x00" * 9, "not a multiple"),
    "the time index promises younger records": lambda: (
        "timeindex",
        TIME_ENTRY.pack(10**12, 2),
        "cannot have",
    ),
    "the snapshot is none": lambda: ("snapshot", b"??????????", "snapshot"),
    "the epochs tell of others": lambda: (
        "leader_epoch_checkpoint",
        b"0\n1\n5 0\n",
        "the leader epochs differ from",
    ),
    "the epochs are no checkpoint": lambda: ("leader_epoch_checkpoint", b"\xff", "not text"),
    "an aborted transaction ends elsewhere": lambda: (
        "txnindex",
        b"\x00\x00" + b"".join(each.to_bytes(8, "big") for each in (1, 2, 99, 3)),
        "outside the segment",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_the_manifest_swears_to_is_read_all_the_same(name: str) -> None:
    """The CRCs are right; what the bytes say is not."""
    suffix, content, words = FORGED[name]()
    bucket = Bucket()
    metadata = bucket.put(1, (0, 9))
    forge(bucket, metadata, suffix, content)
    findings = verify(bucket)
    assert any(words in each.problem and each.is_trouble for each in findings), findings


def test_a_gap_within_a_segment_is_a_note() -> None:
    """A topic that was compacted once has them."""
    bucket = Bucket()
    metadata = bucket.put(1, (0, 9))
    forge(bucket, metadata, "index", b"")
    forge(bucket, metadata, "log", batches_of((0, 2, 0), (6, 9, 0)))
    (finding,) = verify(bucket)
    assert "3 to 5" in finding.problem
    assert not finding.is_trouble
    forge(bucket, metadata, "log", batches_of((0, 5, 0)))
    (finding,) = verify(bucket)
    assert "ends before offset 6" in finding.problem
    assert not finding.is_trouble


def test_the_metadata_and_the_objects_must_agree() -> None:
    bucket, first, second = two_segments()
    absent = replace(first, segment_id=first.segment_id._replace(id=PARTITION.topic_id))
    remote_log = remote_log_of(PARTITION, [replace(first, end_offset=8), absent])
    findings = verify(bucket, remote_log)
    problems = {each.key: each for each in findings}
    assert "differ in end_offset" in problems[object_key(first, "manifest")].problem
    assert "it is not" in problems[object_key(absent, "manifest")].problem
    unknown = problems[object_key(second, "log").removesuffix(".log")]
    assert unknown.is_trouble


def test_a_tier_whose_metadata_was_lost_is_not_sound() -> None:
    """A rebuild would bring back what a reader of this cluster cannot reach."""
    bucket, _, _ = two_segments()
    findings = verify(bucket, RemoteLog(PARTITION))
    assert [each.is_trouble for each in findings] == [True, True]
    for each in findings:
        assert "is not in the metadata" in each.problem
        assert "rebuild" in each.advice
        assert "scrub" not in each.advice


def test_what_is_left_of_a_deleted_topic_or_of_a_second_copy_is_a_note() -> None:
    bucket, first, _ = two_segments()
    deleted = RemoteLog(PARTITION)
    deleted.apply_partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED)
    assert not any(each.is_trouble for each in verify(bucket, deleted))
    again = Bucket()
    first = again.put(1, (0, 9))
    again.put(2, (0, 9))
    known = remote_log_of(PARTITION, [first])
    assert not any(each.is_trouble for each in verify(again, known))


class _Moving(Bucket):
    """A bucket in which something happens between two requests."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] | None = None

    async def list(self, prefix: str = "") -> list[TierObject]:
        found = await super().list(prefix)
        happens, self.meanwhile = self.meanwhile, None
        if happens is not None:
            happens()
        return found


def test_what_is_copied_between_listing_and_metadata_is_not_missed() -> None:
    bucket = _Moving()
    first = bucket.put(1, (0, 9))
    segments = [first]
    known = RemoteLog(PARTITION)

    def copy() -> None:
        segments.append(bucket.put(2, (10, 19)))
        for each in segments:
            known.apply_copy_started(each)
            known.apply_update(finished_event(each))

    bucket.meanwhile = copy
    assert verify(bucket, known) == []


def test_what_retention_removes_while_we_read_is_no_finding() -> None:
    async def story() -> list[Finding]:
        bucket = Bucket()
        first = bucket.put(1, (0, 9))
        bucket.put(2, (10, 19))
        survey = await survey_tier(bucket)
        for suffix in ("manifest", "log", "index"):
            await bucket.remove(object_key(first, suffix))
        return await check_segments(bucket, survey, silent)

    assert asyncio.run(story()) == []


def test_a_log_that_vanishes_while_its_manifest_stays_is_found() -> None:
    async def story() -> list[Finding]:
        bucket = Bucket()
        first = bucket.put(1, (0, 9))
        survey = await survey_tier(bucket)
        await bucket.remove(object_key(first, "log"))
        return await check_segments(bucket, survey, silent)

    (finding,) = asyncio.run(story())
    assert finding.problem == "log is missing"
