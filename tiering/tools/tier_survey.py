"""Surveys a tier from outside: lists it, reads its manifests and reports inconsistencies.

Manifests are read a few at a time, so memory is bounded, even for a million segments, apart from
what is kept of each. An unreadable manifest becomes a finding, and its segment is left out; an
unreachable store is an error, never an empty tier.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ...clients.record.checksum import crc32c
from ...clients.topic_partition import TopicIdPartition
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata
from ..remote_storage import Failure, IndexType, RemoteStorageError
from ..store.manifest import MANIFEST_BYTES_MAX, PART_BYTES_MAX, Manifest, decode_manifest
from ..store.object_keys import LOG_SUFFIX, MANIFEST_SUFFIX, object_key
from ..store.tier_store import TierObject
from .in_parallel import in_parallel
from .stored_segments import Listing, StoredSegment, missing_parts, sort_out

WORKERS = 16
"""Number of concurrent requests to the store."""

RESTORE = (
    "restore the object from a backup of the bucket, or accept the loss of the segment's records"
)
_RESTORE_BESIDE_LOG = (
    "the records are not lost, they are in the segment's log object: keep that one, and restore"
    " this one from a backup of the bucket; until then, reads that need it fail"
)
"""Of a transaction index, which no other object holds."""
_REPAIR = (
    "the records are not lost, they are in the segment's log object: `tierlog tier repair` writes"
    " this one again; until then, reads that need it fail"
)
_REPAIR_MANIFEST = "if the log object is whole, `tierlog tier repair` writes the manifest again"


def advice_beside_log(*suffixes: str) -> str:
    """What to do where the log object is whole and these parts beside it are not."""
    is_lost = IndexType.TRANSACTION.value in suffixes
    return _RESTORE_BESIDE_LOG if is_lost else _REPAIR


_SHOWN = 500
"""The maximum characters of a key or a problem on one line."""

Progress = Callable[[int, int], None]
"""A callback that gets the number of items done and their total."""


class TierReader(Protocol):
    """The reading half of `TierFileSystem`."""

    async def read(self, key: str, start: int | None = None, end: int | None = None) -> bytes: ...

    async def list(self, prefix: str = "") -> list[TierObject]: ...


class Finding(NamedTuple):
    """A problem in the tier: the object, what is wrong with it, what to do."""

    key: str
    problem: str
    advice: str
    is_trouble: bool = True
    """False for a harmless note."""
    offsets: tuple[int, ...] = ()
    """The first and last affected offset; empty if unknown."""

    def __str__(self) -> str:
        where = f" (offsets {self.offsets[0]} to {self.offsets[-1]})" if self.offsets else ""
        return f"{_plain(self.key)}{where}: {_plain(self.problem)}; {self.advice}"


def _plain(text: str) -> str:
    """Text that is safe to print on one line; keys and library errors are untrusted."""
    cut = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return cut if cut.isprintable() else cut.encode("unicode_escape").decode()


class IncompleteSegment(NamedTuple):
    """A segment whose manifest names parts that are not there."""

    manifest: Manifest
    missing: frozenset[str]
    """The suffixes of parts that are missing or have another size."""

    def without_missing(self) -> Manifest:
        """The manifest as if it did not name the missing parts."""
        parts = self.manifest.parts
        return self.manifest._replace(
            parts={part: parts[part] for part in parts if part not in self.missing}
        )


@dataclass(slots=True)
class Survey:
    """The contents of a tier, from its listing and its manifests."""

    listing: Listing
    manifests: dict[str, Manifest] = field(default_factory=dict[str, Manifest])
    """By stem; complete segments only."""
    findings: list[Finding] = field(default_factory=list[Finding])
    incomplete: dict[str, IncompleteSegment] = field(default_factory=dict[str, IncompleteSegment])
    """By stem; each has a finding."""

    def partitions(self) -> dict[TopicIdPartition, list[Manifest]]:
        """The complete segments of each partition, by start offset."""
        by_partition: dict[TopicIdPartition, list[Manifest]] = {}
        for manifest in self.manifests.values():
            by_partition.setdefault(manifest.metadata.topic_id_partition, []).append(manifest)
        for manifests in by_partition.values():
            manifests.sort(key=lambda each: (each.metadata.start_offset, each.metadata.end_offset))
        return dict(sorted(by_partition.items(), key=lambda item: item[0][1:]))

    def only(self, topics: Container[str]) -> "Survey":
        """The survey of these topics only."""
        segments = {
            stem: stored
            for stem, stored in self.listing.segments.items()
            if stored.topic_id_partition.topic in topics
        }
        return Survey(
            Listing(segments, []),
            {segment: self.manifests[segment] for segment in segments if segment in self.manifests},
            [finding for finding in self.findings if finding.key.rpartition(".")[0] in segments],
            {
                segment: self.incomplete[segment]
                for segment in segments
                if segment in self.incomplete
            },
        )


class DamagedPartError(Exception):
    """A part of a segment does not match its manifest."""


async def read_part(tier: TierReader, manifest: Manifest, suffix: str) -> bytes:
    """A small part of a segment, checked. Raises DamagedPartError, RemoteStorageError."""
    part = manifest.parts.get(suffix)
    if part is None:
        raise DamagedPartError(f"{suffix} is missing")
    if part.size > PART_BYTES_MAX:
        raise DamagedPartError(f"{suffix} has {part.size} bytes, more than a broker writes")
    try:
        content = await tier.read(object_key(manifest.metadata, suffix))
    except RemoteStorageError as error:
        if error.failure is Failure.NOT_FOUND:
            raise DamagedPartError(f"{suffix} is missing") from error
        raise
    if part.size != len(content) or part.crc != crc32c(content):
        raise DamagedPartError(f"{suffix} does not match the manifest")
    return content


def _no_progress(_done: int, _total: int) -> None:
    """A `Progress` that does nothing."""


async def survey_tier(
    tier: TierReader, progress: Progress = _no_progress, workers: int = WORKERS
) -> Survey:
    """List a tier and read every manifest. Raises RemoteStorageError if the store does not answer.

    A segment without a manifest is not a finding: it may be being uploaded right now.
    """
    survey = Survey(sort_out(await tier.list()))
    whole = [segment for segment in survey.listing.segments.values() if segment.has_manifest]
    done = 0

    async def look(segment: StoredSegment) -> None:
        nonlocal done
        await read_manifest(tier, segment, survey)
        done += 1
        progress(done, len(whole))

    await in_parallel(whole, look, workers)
    # Restore the listing's order, as responses arrive in any order.
    survey.manifests = {
        segment.stem: survey.manifests[segment.stem]
        for segment in whole
        if segment.stem in survey.manifests
    }
    survey.findings.sort()
    return survey


async def survey_again(
    tier: TierReader,
    listing: Listing,
    manifests: Mapping[str, Manifest],
    is_wanted: Callable[[StoredSegment], bool],
) -> Survey:
    """The wanted segments that have a manifest, by a look that reads only the new ones.

    `manifests` are those of the last look, by stem. Raises RemoteStorageError.
    """
    whole = {
        each.stem: each
        for each in listing.segments.values()
        if each.has_manifest and is_wanted(each)
    }
    survey = Survey(listing)
    survey.manifests = {stem: manifests[stem] for stem in whole if stem in manifests}

    async def read(segment: StoredSegment) -> None:
        await read_manifest(tier, segment, survey)

    await in_parallel([whole[stem] for stem in whole if stem not in manifests], read, WORKERS)
    return survey


async def read_manifest(tier: TierReader, segment: StoredSegment, survey: Survey) -> None:
    """Add one manifest, or a finding about it, to a survey. Raises RemoteStorageError."""
    key = segment.key(MANIFEST_SUFFIX)
    size = segment.objects[MANIFEST_SUFFIX].size
    if size > MANIFEST_BYTES_MAX:
        problem = f"the manifest cannot be read (it has {size} bytes)"
        survey.findings.append(Finding(key, problem, _REPAIR_MANIFEST))
        return
    try:
        manifest = decode_manifest(await tier.read(key))
    except RemoteStorageError as error:
        if error.failure is Failure.NOT_FOUND:
            # Deleted since the listing.
            return
        if error.failure is not Failure.BROKEN:
            raise
        problem = f"the manifest cannot be read ({error})"
        survey.findings.append(Finding(key, problem, _REPAIR_MANIFEST))
        return
    contradiction = _contradiction(manifest.metadata)
    if contradiction is None and object_key(manifest.metadata, MANIFEST_SUFFIX) != key:
        contradiction = "the manifest belongs to another segment"
    if contradiction is not None:
        survey.findings.append(Finding(key, contradiction, _REPAIR_MANIFEST))
        return
    missing = missing_parts(manifest, segment.objects)
    if missing:
        offsets = offsets_of(manifest.metadata)
        problem = ", ".join(missing.values())
        advice = RESTORE if LOG_SUFFIX in missing else advice_beside_log(*missing)
        survey.findings.append(Finding(key, problem, advice, offsets=offsets))
        survey.incomplete[segment.stem] = IncompleteSegment(manifest, frozenset(missing))
        return
    survey.manifests[segment.stem] = manifest


def offsets_of(segment: RemoteLogSegmentMetadata) -> tuple[int, int]:
    """The first and the last offset of a segment."""
    return (segment.start_offset, segment.end_offset)


def _contradiction(segment: RemoteLogSegmentMetadata) -> str | None:
    """The error in metadata that decodes but is inconsistent; None if there is none.

    The epochs may begin above the segment: at the log start offset as of its copy, which
    DeleteRecords or retention had moved into its midst.
    """
    start, end = offsets_of(segment)
    epochs = segment.segment_leader_epochs
    if start <= epochs[0][1] and epochs[-1][1] <= end:
        return None
    return f"the leader epochs of the manifest do not match the offsets {start} to {end}"
