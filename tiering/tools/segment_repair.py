"""Writes lost or damaged parts of segments again, from their log objects and from one another.

    index, timeindex           from the batches, as their leader wrote them
    snapshot                   from an older snapshot and the batches after it
    leader_epoch_checkpoint    from the manifests, unless they hold several branches
    manifest                   from the batches, or from the metadata topic where that was read;
                               with parts that are as the batches say

The log object itself has no other source, and neither has a transaction index, without which
aborted records would look committed. A segment whose manifest is missing is left alone unless the
metadata calls it finished: it may be a copy under way, or a deletion, which removes the manifest
first. A part that is not byte for byte the lost one gets a new manifest, which is written last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ...clients.record.checksum import crc32c
from ...clients.record.control import ControlRecordType
from ...clients.topic_partition import TopicIdPartition
from ...storage.checkpoint import MalformedCheckpointError, format_epochs, parse_epochs
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
)
from ..reading.remote_index_rebuild import DamagedLogError, RebuiltIndexes, rebuild_indexes
from ..remote_storage import IndexType
from ..store.manifest import Manifest, Part, encode_manifest
from ..store.object_keys import LOG_SUFFIX, MANIFEST_SUFFIX, object_key, parse_object_key
from .lineage_choice import choose_lineage, tail_of
from .plan_rebuild import derived_history
from .producer_replay import producers_at_end, stored_batches
from .rebuild_plan import description_of
from .segment_check import part_problem
from .stored_segments import StoredSegment
from .tier_survey import DamagedPartError, Finding, Survey, TierReader, offsets_of, read_part

_INDEXES = (IndexType.OFFSET.value, IndexType.TIMESTAMP.value)
_OTHERS = (IndexType.LEADER_EPOCH.value, IndexType.PRODUCER_SNAPSHOT.value)
_RESTORE = "restore it from a backup of the bucket"


class Repair(NamedTuple):
    """The objects of one segment to write, in this order."""

    metadata: RemoteLogSegmentMetadata
    objects: tuple[tuple[str, bytes], ...]
    """Keys and contents; a manifest is the last."""


@dataclass(slots=True)
class RepairPlan:
    """What can be written again, and what cannot."""

    repairs: list[Repair] = field(default_factory=list[Repair])
    findings: list[Finding] = field(default_factory=list[Finding])


async def plan_repairs(
    tier: TierReader,
    survey: Survey,
    remote_logs: Mapping[TopicIdPartition, RemoteLog] | None = None,
) -> RepairPlan:
    """Decide what to write. `remote_logs` are those of the metadata topic, if it was read.

    Each small part is read and compared with its manifest; the log of a segment only if something
    of it is to be written. Raises RemoteStorageError if the store does not answer.
    """
    planner = _Planner(tier, survey)
    # First what has no manifest: the producers of later segments depend on it, too.
    for stored in survey.listing.segments.values():
        if stored.stem in survey.manifests or stored.stem in survey.incomplete:
            continue
        announced = _finished_metadata(stored, remote_logs)
        if stored.has_manifest or announced is not None:
            await planner.write_manifest(stored, announced)
    for manifest in list(survey.manifests.values()):
        await planner.mend(manifest, await _damaged_parts(tier, manifest))
    for incomplete in survey.incomplete.values():
        damaged = await _damaged_parts(tier, incomplete.without_missing())
        await planner.mend(incomplete.manifest, {*incomplete.missing, *damaged})
    planner.plan.findings.sort()
    return planner.plan


async def _damaged_parts(tier: TierReader, manifest: Manifest) -> set[str]:
    """The suffixes of the small parts that do not match the manifest, or say what cannot be."""
    damaged: set[str] = set()
    for suffix in manifest.parts:
        if suffix != LOG_SUFFIX:
            try:
                content = await read_part(tier, manifest, suffix)
            except DamagedPartError:
                damaged.add(suffix)
                continue
            if part_problem(manifest.metadata, suffix, content) is not None:
                damaged.add(suffix)
    return damaged


def _finished_metadata(
    stored: StoredSegment, remote_logs: Mapping[TopicIdPartition, RemoteLog] | None
) -> RemoteLogSegmentMetadata | None:
    remote = (remote_logs or {}).get(stored.topic_id_partition)
    metadata = None if remote is None else remote.segment(stored.segment_id)
    is_finished = (
        metadata is not None and metadata.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    )
    return metadata if is_finished else None


class _LogObject(NamedTuple):
    """The log of a segment, for the rebuilding of its indexes."""

    tier: TierReader

    async def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> bytes:
        end = min(end_position + 1, metadata.segment_size_bytes)
        return await self.tier.read(object_key(metadata, LOG_SUFFIX), start_position, end)


class _Planner:
    """Makes one plan."""

    def __init__(self, tier: TierReader, survey: Survey) -> None:
        self._tier = tier
        self._all = [
            *survey.manifests.values(),
            *(segment.without_missing() for segment in survey.incomplete.values()),
        ]
        self._last_indexes: tuple[RemoteLogSegmentId, RebuiltIndexes] | None = None
        """Those of the segment that was last asked for: both are made in one pass over its log."""
        self.plan = RepairPlan()

    def _of_partition(self, metadata: RemoteLogSegmentMetadata) -> list[Manifest]:
        partition = metadata.topic_id_partition
        return [
            manifest for manifest in self._all if manifest.metadata.topic_id_partition == partition
        ]

    def _cannot(self, key: str, problem: str, offsets: tuple[int, ...] = ()) -> None:
        self.plan.findings.append(Finding(key, problem, _RESTORE, offsets=offsets))

    async def mend(self, manifest: Manifest, damaged: set[str]) -> None:
        """Plan the parts of a segment whose manifest is sound."""
        metadata = manifest.metadata
        written: dict[str, bytes] = {}
        for suffix in sorted(damaged):
            try:
                written[suffix] = await self._content(manifest, suffix)
            except (DamagedPartError, DamagedLogError) as error:
                key = object_key(metadata, suffix)
                self._cannot(key, f"it cannot be written again: {error}", offsets_of(metadata))
        if not written:
            return
        parts = {each: _part(content) for each, content in written.items()}
        objects = [(object_key(metadata, each), content) for each, content in written.items()]
        if any(manifest.parts[each] != part for each, part in parts.items()):
            again = manifest._replace(parts={**manifest.parts, **parts})
            objects.append((object_key(metadata, MANIFEST_SUFFIX), encode_manifest(again)))
        self.plan.repairs.append(Repair(metadata, tuple(objects)))

    async def _content(self, manifest: Manifest, suffix: str) -> bytes:
        """A part, made again. Raises DamagedPartError, DamagedLogError."""
        metadata = manifest.metadata
        if suffix in _INDEXES:
            indexes = await self._indexes_of(manifest)
            is_offset = suffix == IndexType.OFFSET.value
            return indexes.offset_index if is_offset else indexes.time_index
        if suffix not in _OTHERS:
            raise DamagedPartError(f"nothing else holds what was in {suffix}")
        older = [
            each
            for each in self._of_partition(metadata)
            if tail_of([each.metadata, metadata]) is metadata
        ]
        segments = [metadata, *(each.metadata for each in older if each.metadata != metadata)]
        history = await self._history(manifest, segments, may_read=suffix in _OTHERS[1:])
        if suffix == IndexType.LEADER_EPOCH.value:
            return format_epochs(history)
        lineage = choose_lineage(segments, history)
        by_id = {each.metadata.id: each for each in older}
        parts = {part: manifest.parts[part] for part in manifest.parts if part != suffix}
        by_id[metadata.id] = manifest._replace(parts=parts)
        return await producers_at_end(self._tier, lineage, by_id)

    async def _indexes_of(self, manifest: Manifest) -> RebuiltIndexes:
        """Both indexes, made from the batches. Raises DamagedPartError, DamagedLogError."""
        segment_id = manifest.metadata.segment_id
        if self._last_indexes is None or self._last_indexes[0] != segment_id:
            async for _ in stored_batches(self._tier, manifest):
                # Each batch is checked: indexes of a damaged log are worth nothing.
                pass
            indexes = await rebuild_indexes(_LogObject(self._tier), manifest.metadata)
            self._last_indexes = (segment_id, indexes)
        return self._last_indexes[1]

    async def _history(
        self, manifest: Manifest, segments: Sequence[RemoteLogSegmentMetadata], *, may_read: bool
    ) -> Sequence[tuple[int, int]]:
        if may_read:
            try:
                content = await read_part(self._tier, manifest, IndexType.LEADER_EPOCH.value)
                return parse_epochs(content)
            except (DamagedPartError, MalformedCheckpointError):
                # Made again, too.
                pass
        derived = derived_history(manifest.metadata, segments)
        if derived is None:
            raise DamagedPartError("the manifests hold several branches")
        return derived

    async def write_manifest(
        self, stored: StoredSegment, announced: RemoteLogSegmentMetadata | None
    ) -> None:
        """Plan the manifest of a segment from its objects."""
        key = stored.key(MANIFEST_SUFFIX)
        if LOG_SUFFIX not in stored.objects:
            self._cannot(key, "no manifest can be written: log is missing")
            return
        try:
            manifest = await self._manifest_of(stored, announced)
            written = await self._parts_again(manifest)
        except (DamagedPartError, DamagedLogError) as error:
            self._cannot(key, f"no manifest can be written: {error}")
            return
        parts = {each: _part(content) for each, content in written.items()}
        manifest = manifest._replace(parts={**manifest.parts, **parts})
        objects = [(stored.key(each), content) for each, content in written.items()]
        objects.append((key, encode_manifest(manifest)))
        self._all.append(manifest)
        self.plan.repairs.append(Repair(manifest.metadata, tuple(objects)))

    async def _parts_again(self, manifest: Manifest) -> dict[str, bytes]:
        """The parts that a new manifest must not swear to as they are, made again.

        With the manifest their checksums are lost. So indexes are compared with the batches, and
        of the others it is known whether they say what can be. Raises DamagedPartError,
        DamagedLogError.
        """
        doubtful = await _damaged_parts(self._tier, manifest)
        doubtful |= {*_INDEXES, *_OTHERS} - manifest.parts.keys()
        parts = {part: manifest.parts[part] for part in manifest.parts if part not in doubtful}
        sound = manifest._replace(parts=parts)
        written: dict[str, bytes] = {}
        for suffix in sorted(doubtful.union(_INDEXES)):
            content = await self._content(sound, suffix)
            if manifest.parts.get(suffix) != _part(content):
                written[suffix] = content
        return written

    async def _manifest_of(
        self, stored: StoredSegment, announced: RemoteLogSegmentMetadata | None
    ) -> Manifest:
        log_size = stored.objects[LOG_SUFFIX].size
        metadata = announced or _first_guess(stored, log_size)
        metadata = replace(metadata, state=RemoteLogSegmentState.COPY_SEGMENT_STARTED)
        if metadata.segment_size_bytes != log_size:
            raise DamagedPartError(f"log has {log_size} bytes, not {metadata.segment_size_bytes}")
        checked = await self._from_batches(metadata, has_aborted="txnindex" in stored.objects)
        metadata = checked if announced is None else metadata
        parts: dict[str, Part] = {}
        for suffix, tier_object in stored.objects.items():
            if suffix != MANIFEST_SUFFIX and not suffix.endswith(".tmp"):
                parts[suffix] = await self._part_of(stored.key(suffix), tier_object.size)
        others = [
            manifest
            for manifest in self._all
            if manifest.metadata.topic_id_partition.topic_id == stored.topic_id_partition.topic_id
        ]
        return Manifest(metadata, parts, description_of(others))

    async def _from_batches(
        self, metadata: RemoteLogSegmentMetadata, *, has_aborted: bool
    ) -> RemoteLogSegmentMetadata:
        """The metadata that the batches show. Raises DamagedPartError."""
        epochs: list[tuple[int, int]] = []
        last, youngest = metadata.start_offset - 1, -1
        aborts = False
        async for batch in stored_batches(self._tier, Manifest(metadata, {})):
            if not epochs or batch.partition_leader_epoch > epochs[-1][0]:
                first = metadata.start_offset if not epochs else batch.base_offset
                epochs.append((batch.partition_leader_epoch, first))
            last, youngest = batch.last_offset, max(youngest, batch.max_timestamp)
            aborts |= batch.is_control and batch.control_type() is ControlRecordType.ABORT
        if not epochs or epochs[-1][0] != metadata.segment_leader_epochs[-1][0]:
            raise DamagedPartError("the batches are of another leader epoch than the key says")
        if aborts and not has_aborted:
            raise DamagedPartError("a transaction is aborted in it, and txnindex is missing")
        return replace(
            metadata,
            end_offset=last,
            max_timestamp_ms=youngest,
            segment_leader_epochs=tuple(epochs),
            event_timestamp_ms=max(youngest, 0),
            txn_index_empty=not has_aborted,
        )

    async def _part_of(self, key: str, size: int) -> Part:
        crc = 0
        for start in range(0, size, _PIECE_BYTES):
            crc = crc32c(await self._tier.read(key, start, min(start + _PIECE_BYTES, size)), crc)
        return Part(size, crc)


_PIECE_BYTES = 4 * 1024 * 1024


def _part(content: bytes) -> Part:
    return Part(len(content), crc32c(content))


def _first_guess(stored: StoredSegment, log_size: int) -> RemoteLogSegmentMetadata:
    """What the key alone holds; the rest is in the batches."""
    said = parse_object_key(stored.key(LOG_SUFFIX))
    assert said is not None, "it was listed by its key"
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(stored.topic_id_partition, stored.segment_id),
        start_offset=stored.start_offset,
        end_offset=stored.start_offset,
        max_timestamp_ms=-1,
        broker_id=-1,
        event_timestamp_ms=0,
        segment_size_bytes=log_size,
        segment_leader_epochs=((said.leader_epoch, stored.start_offset),),
    )
