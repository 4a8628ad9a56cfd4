"""Checks a tier for completeness: each segment, all segments together, and the metadata.

A partition's segments are combined as in a rebuild (`lineage_choice.py`): holes are trouble,
branches that an election cut off are notes. If the metadata topic was read, each segment that it
calls finished must exist and match it.
"""

from collections.abc import Mapping, Set as AbstractSet

from ...clients.kafka_uuid import uuid_to_string
from ...clients.topic_partition import TopicIdPartition
from ...storage.checkpoint import MalformedCheckpointError, parse_epochs
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata, RemoteLogSegmentState
from ..remote_storage import IndexType
from ..store.manifest import Manifest
from ..store.object_keys import MANIFEST_SUFFIX, object_key, object_stem, partition_prefix
from .in_parallel import in_parallel
from .lineage_choice import TierLineage, choose_lineage, tail_of
from .orphans import is_unknown_whole
from .segment_check import check_segment
from .stored_segments import StoredSegment, sort_out
from .tier_survey import (
    DamagedPartError,
    Finding,
    Progress,
    Survey,
    TierReader,
    offsets_of,
    read_manifest,
    read_part,
)

WORKERS = 4
"""Number of segments read at once; each has a piece of its log in memory."""


async def check_survey(
    tier: TierReader, survey: Survey, remote_logs: Mapping[TopicIdPartition, RemoteLog] | None
) -> list[Finding]:
    """Every finding that requires no reading of records.

    `remote_logs` comes from the metadata topic; None if it was not read.
    Raises RemoteStorageError if the store does not answer.
    """
    lineages = await _lineages(tier, survey)
    findings = list(survey.findings)
    for lineage in lineages:
        findings += lineage_findings(lineage)
    findings += unused_findings(survey)
    if remote_logs is not None:
        await _look_for_younger(tier, survey, remote_logs)
        needed = {object_stem(segment) for lineage in lineages for segment in lineage.segments}
        gone = await _gone_since(tier, survey, remote_logs, needed)
        findings += metadata_findings(survey, remote_logs, needed - gone)
    return findings


async def _look_for_younger(
    tier: TierReader, survey: Survey, remote_logs: Mapping[TopicIdPartition, RemoteLog]
) -> None:
    """Add the segments copied after the listing and before the metadata was read."""
    unseen = [
        segment
        for remote in remote_logs.values()
        for segment in remote.segments()
        if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        and object_stem(segment) not in survey.manifests
    ]

    async def look(segment: RemoteLogSegmentMetadata) -> None:
        listing = sort_out(await tier.list(object_key(segment, "")))
        stored = listing.segments.get(object_stem(segment))
        if stored is not None and stored.has_manifest:
            # The first survey already has the findings of a segment that it listed.
            again = Survey(listing)
            await read_manifest(tier, stored, again)
            survey.manifests.update(again.manifests)

    await in_parallel(unseen, look, WORKERS)


async def check_segments(tier: TierReader, survey: Survey, progress: Progress) -> list[Finding]:
    """Check every whole segment. Raises RemoteStorageError if the store does not answer."""
    findings: list[Finding] = []
    done = 0

    async def check(manifest: Manifest) -> None:
        nonlocal done
        findings.extend(await check_segment(tier, manifest))
        done += 1
        progress(done, len(survey.manifests))

    await in_parallel(survey.manifests.values(), check, WORKERS)
    return sorted(findings)


async def _gone_since(
    tier: TierReader,
    survey: Survey,
    remote_logs: Mapping[TopicIdPartition, RemoteLog],
    needed: AbstractSet[str],
) -> set[str]:
    """The needed segments that the metadata lacks and that were deleted since the listing."""
    gone: set[str] = set()

    async def look(stored: StoredSegment) -> None:
        listing = sort_out(await tier.list(stored.key("")))
        if stored.stem not in listing.segments:
            gone.add(stored.stem)

    unknown = [
        stored
        for stored in survey.listing.segments.values()
        if stored.stem in needed and not _knows(remote_logs, stored)
    ]
    await in_parallel(unknown, look, WORKERS)
    return gone


def _knows(remote_logs: Mapping[TopicIdPartition, RemoteLog], stored: StoredSegment) -> bool:
    its_log = remote_logs.get(stored.topic_id_partition)
    return its_log is not None and its_log.segment(stored.segment_id) is not None


async def _lineages(tier: TierReader, survey: Survey) -> list[TierLineage]:
    """The lineage that a rebuild would choose for each partition."""
    lineages: list[TierLineage] = []
    for manifests in survey.partitions().values():
        segments = [manifest.metadata for manifest in manifests]
        tail = tail_of(segments)
        manifest = next(each for each in manifests if each.metadata is tail)
        try:
            history = parse_epochs(await read_part(tier, manifest, IndexType.LEADER_EPOCH.value))
        except (DamagedPartError, MalformedCheckpointError):
            # Reported by the check of the segment itself.
            continue
        lineages.append(choose_lineage(segments, history))
    return lineages


def lineage_findings(lineage: TierLineage) -> list[Finding]:
    """The findings about a partition's segments together."""
    where = partition_prefix(lineage.topic_id_partition)
    findings = [
        Finding(
            where,
            f"no segment holds the offsets {hole}",
            "restore the missing segments from a backup of the bucket",
            offsets=tuple(hole),
        )
        for hole in lineage.holes
    ]
    twins = {
        (offsets_of(segment), segment.segment_leader_epochs): segment
        for segment in lineage.segments
    }
    for each in lineage.left_out:
        twin = twins.get((offsets_of(each), each.segment_leader_epochs))
        problem = (
            "the segment is of a branch that a leader election cut off, or a duplicate of others"
            if twin is None
            else f"the segment is a copy of {object_key(twin, MANIFEST_SUFFIX)}"
        )
        advice = "nothing needs to be done: retention removes it"
        key = object_key(each, MANIFEST_SUFFIX)
        findings.append(Finding(key, problem, advice, False, offsets_of(each)))
    return findings


def unused_findings(survey: Survey) -> list[Finding]:
    """Objects that no manifest names: orphans, unless they are being uploaded right now."""
    findings: list[Finding] = []
    for stored in survey.listing.segments.values():
        if not stored.has_manifest:
            problem = "there is no manifest"
            advice = "it is being uploaded, or is left over: check with `tierlog tier scrub`"
            findings.append(Finding(stored.stem, problem, advice, is_trouble=False))
        manifest = survey.manifests.get(stored.stem)
        named = {MANIFEST_SUFFIX, *stored.objects} if manifest is None else manifest.parts.keys()
        for suffix in sorted(stored.objects.keys() - named - {MANIFEST_SUFFIX}):
            problem = "it is not in the manifest of its segment"
            advice = "check with `tierlog tier scrub` whether it can be removed"
            findings.append(Finding(stored.key(suffix), problem, advice, is_trouble=False))
    problem, advice = "it was not written by tierlog", "it is left alone: find out who put it there"
    findings += [
        Finding(tier_object.key, problem, advice, False) for tier_object in survey.listing.foreign
    ]
    return findings


def metadata_findings(
    survey: Survey, remote_logs: Mapping[TopicIdPartition, RemoteLog], needed: AbstractSet[str]
) -> list[Finding]:
    """The differences between the metadata topic and the objects.

    `needed` are the segments that a rebuild would use: if the metadata lacks one, readers cannot
    reach its records, although they still exist.
    """
    findings: list[Finding] = []
    for remote in remote_logs.values():
        for segment in remote.segments():
            if segment.state is not RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
                continue
            key = object_key(segment, MANIFEST_SUFFIX)
            manifest = survey.manifests.get(object_stem(segment))
            if manifest is None:
                problem = "the metadata says that the segment is complete, but it is not"
                advice = (
                    "`tierlog tier repair` says what it writes again; the rest must come from a"
                    " backup"
                )
                findings.append(Finding(key, problem, advice, offsets=offsets_of(segment)))
            elif differs := _differences(segment, manifest.metadata):
                problem = f"the manifest and the metadata differ in {', '.join(differs)}"
                advice = "one of them was changed: compare with a backup"
                findings.append(Finding(key, problem, advice, offsets=offsets_of(segment)))
    findings += [
        _unknown(stored, remote_logs, needed)
        for stored in survey.listing.segments.values()
        if not _knows(remote_logs, stored)
    ]
    return sorted(findings)


def _unknown(
    stored: StoredSegment,
    remote_logs: Mapping[TopicIdPartition, RemoteLog],
    needed: AbstractSet[str],
) -> Finding:
    problem = f"segment {uuid_to_string(stored.segment_id)} is not in the metadata"
    its_log = remote_logs.get(stored.topic_id_partition)
    is_lost = its_log is None or is_unknown_whole(stored, its_log)
    if stored.stem not in needed or not is_lost:
        advice = "check with `tierlog tier scrub` whether it can be removed"
        return Finding(stored.stem, problem, advice, is_trouble=False)
    advice = (
        "if the metadata was lost, `tierlog tier rebuild` restores its records; if the segment "
        "belongs to another cluster, give each cluster its own prefix"
    )
    return Finding(stored.stem, f"{problem}, but complete", advice)


_COMPARED = (
    "start_offset",
    "end_offset",
    "segment_size_bytes",
    "max_timestamp_ms",
    "segment_leader_epochs",
    "txn_index_empty",
)


def _differences(segment: RemoteLogSegmentMetadata, written: RemoteLogSegmentMetadata) -> list[str]:
    return [name for name in _COMPARED if getattr(segment, name) != getattr(written, name)]
