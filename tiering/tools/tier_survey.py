"""Reading a tier from outside: list it, read its manifests, say what does not fit together.

Manifests are read a few at a time, so even a bucket with a million segments is read in bounded
memory but for what is kept of each of them. What cannot be read becomes a finding and is left out;
an unreachable store is an error, never an empty tier.
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ...clients.record.checksum import crc32c
from ...clients.topic_partition import TopicIdPartition
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata
from ..remote_storage import Failure, RemoteStorageError
from ..store.manifest import MANIFEST_BYTES_MAX, PART_BYTES_MAX, Manifest, decode_manifest
from ..store.object_keys import MANIFEST_SUFFIX, object_key
from ..store.tier_store import TierObject
from .in_parallel import in_parallel
from .stored_segments import Listing, StoredSegment, missing_parts, sort_out

WORKERS = 16
"""Requests to the store at once."""

_SHOWN = 500
"""Characters of a key or of a problem on one line."""

Progress = Callable[[int, int], None]
"""Told how much of how much is done."""


class TierReader(Protocol):
    """The reading half of `TierFileSystem`."""

    async def read(self, key: str, start: int | None = None, end: int | None = None) -> bytes: ...

    async def list(self, prefix: str = "") -> list[TierObject]: ...


class Finding(NamedTuple):
    """Something that is not as it should be: which object, what it is, what to do."""

    key: str
    problem: str
    advice: str
    is_trouble: bool = True
    """False for what is worth knowing and harms nobody."""
    offsets: tuple[int, ...] = ()
    """The first and the last offset that it is about; empty where they are not known."""

    def __str__(self) -> str:
        where = f" (offsets {self.offsets[0]} to {self.offsets[-1]})" if self.offsets else ""
        return f"{_plain(self.key)}{where}: {_plain(self.problem)}; {self.advice}"


def _plain(text: str) -> str:
    """Text for a line on a terminal; keys and what libraries say of content may be anybody's."""
    cut = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return cut if cut.isprintable() else cut.encode("unicode_escape").decode()


@dataclass(slots=True)
class Survey:
    """A tier as its listing and its manifests tell it."""

    listing: Listing
    manifests: dict[str, Manifest] = field(default_factory=dict[str, Manifest])
    """Of whole segments only, by stem."""
    findings: list[Finding] = field(default_factory=list[Finding])

    def partitions(self) -> dict[TopicIdPartition, list[Manifest]]:
        """The whole segments of each partition, by start offset."""
        by_partition: dict[TopicIdPartition, list[Manifest]] = {}
        for manifest in self.manifests.values():
            by_partition.setdefault(manifest.metadata.topic_id_partition, []).append(manifest)
        for manifests in by_partition.values():
            manifests.sort(key=lambda each: (each.metadata.start_offset, each.metadata.end_offset))
        return dict(sorted(by_partition.items(), key=lambda item: item[0][1:]))

    def only(self, topics: Container[str]) -> "Survey":
        """What it tells of these topics."""
        segments = {
            stem: stored
            for stem, stored in self.listing.segments.items()
            if stored.topic_id_partition.topic in topics
        }
        return Survey(
            Listing(segments, []),
            {each: self.manifests[each] for each in segments if each in self.manifests},
            [each for each in self.findings if each.key.rpartition(".")[0] in segments],
        )


class DamagedPartError(Exception):
    """A part of a segment is not what its manifest says."""


async def read_part(tier: TierReader, manifest: Manifest, suffix: str) -> bytes:
    """A small part of a segment, checked. Raises DamagedPartError, RemoteStorageError."""
    part = manifest.parts.get(suffix)
    if part is not None and part.size > PART_BYTES_MAX:
        raise DamagedPartError(f"{suffix} has {part.size} bytes, more than a broker writes there")
    try:
        content = await tier.read(object_key(manifest.metadata, suffix))
    except RemoteStorageError as error:
        if error.failure is Failure.NOT_FOUND:
            raise DamagedPartError(f"{suffix} is missing") from error
        raise
    if part is None or part.size != len(content) or part.crc != crc32c(content):
        raise DamagedPartError(f"{suffix} is not what the manifest says")
    return content


def _no_progress(_done: int, _total: int) -> None:
    """Nobody watches."""


async def survey_tier(
    tier: TierReader, progress: Progress = _no_progress, workers: int = WORKERS
) -> Survey:
    """List a tier and read every manifest. Raises RemoteStorageError if the store does not answer.

    Segments without a manifest are no finding: one may be on its way just now.
    """
    survey = Survey(sort_out(await tier.list()))
    whole = [each for each in survey.listing.segments.values() if each.has_manifest]
    done = 0

    async def look(segment: StoredSegment) -> None:
        nonlocal done
        await read_manifest(tier, segment, survey)
        done += 1
        progress(done, len(whole))

    await in_parallel(whole, look, workers)
    # In the order of the listing, whichever answer came first.
    survey.manifests = {
        each.stem: survey.manifests[each.stem] for each in whole if each.stem in survey.manifests
    }
    survey.findings.sort()
    return survey


async def read_manifest(tier: TierReader, segment: StoredSegment, survey: Survey) -> None:
    """Read one manifest into a survey, or a finding about it. Raises RemoteStorageError."""
    key = segment.key(MANIFEST_SUFFIX)
    size = segment.objects[MANIFEST_SUFFIX].size
    if size > MANIFEST_BYTES_MAX:
        problem = f"the manifest cannot be read (it has {size} bytes)"
        survey.findings.append(Finding(key, problem, _RESTORE))
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
        survey.findings.append(Finding(key, problem, _RESTORE))
        return
    contradiction = _contradiction(manifest.metadata)
    if contradiction is None and object_key(manifest.metadata, MANIFEST_SUFFIX) != key:
        contradiction = "the manifest is of another segment"
    if contradiction is not None:
        survey.findings.append(Finding(key, contradiction, _RESTORE))
        return
    missing = missing_parts(manifest, segment.objects)
    if missing:
        offsets = offsets_of(manifest.metadata)
        survey.findings.append(Finding(key, ", ".join(missing), _RESTORE, offsets=offsets))
        return
    survey.manifests[segment.stem] = manifest


def offsets_of(segment: RemoteLogSegmentMetadata) -> tuple[int, int]:
    """The first and the last offset of a segment."""
    return (segment.start_offset, segment.end_offset)


def _contradiction(segment: RemoteLogSegmentMetadata) -> str | None:
    """What the metadata of no segment says, beyond what cannot even be decoded."""
    start, end = offsets_of(segment)
    epochs = segment.segment_leader_epochs
    if epochs[0][1] == start and epochs[-1][1] <= end:
        return None
    return f"the leader epochs of the manifest are not those of the offsets {start} to {end}"


_RESTORE = "restore the object from a backup of the bucket, or give the segment's records up"
