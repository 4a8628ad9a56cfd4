"""The topics, and one topic with its partitions."""

from collections.abc import Generator, Iterable, Sequence
from typing import NamedTuple

from ...clients.kafka_uuid import uuid_to_string
from ...clients.runtime.steps import sorted_steps
from ...coordinator.offsets import FetchTopic
from ...replication.metadata.cluster_image import PartitionImage, TopicImage
from ...replication.partition.partition import Partition
from ...replication.topic_names import NEVER_TIERED
from ...storage.log.unified_log import UnifiedLog
from .group_status import lags_by_topic, shards_by_group
from .partition_status import (
    NO_OFFSETS,
    bytes_in_tier,
    lag_of,
    offsets_status,
    retention_status,
    segments_status,
)
from .sources import Json, StatusSources, Steps, page, shorten

TOPICS_MAX = 500
PARTITIONS_MAX = 100
GROUPS_MAX = 20
"""Groups that are listed with a topic or a partition."""
SEGMENTS_MAX = 200
"""Segments of a partition; fewer if many partitions are listed."""
SEGMENTS_OF_ALL_MAX = 5_000
_SEGMENTS_MIN = 20
_PARTITIONS_A_STEP = 32
_TIERED = "remote.storage.enable"


class _Groups:
    """The groups with a committed offset of a partition: the first ones, and how many more."""

    __slots__ = ("listed", "more")

    def __init__(self) -> None:
        self.listed: list[tuple[str, int]] = []
        self.more = 0


class Troubled(NamedTuple):
    """How many partitions have fewer replicas in sync than there are, and how many no leader."""

    under_replicated: int
    offline: int


def count_troubled(partitions: Iterable[PartitionImage]) -> Troubled:
    """Count the partitions that need attention."""
    under_replicated = offline = 0
    for partition in partitions:
        under_replicated += len(partition.isr) < len(partition.replicas)
        offline += partition.leader < 0
    return Troubled(under_replicated, offline)


def topics_status(sources: StatusSources, begin: int) -> Steps:
    """The topics from number `begin` on, in the order of their names."""
    by_name = sources.image.topics_by_name
    names, more = page((yield from sorted_steps(list(by_name))), begin, TOPICS_MAX)
    yield
    lags = yield from lags_by_topic(sources, frozenset(names))
    topics: list[Json] = []
    for name in names:
        groups = sorted(lags.get(name, ()))
        listed, more_groups = page(groups, 0, GROUPS_MAX)
        topics.append(
            {
                **(yield from _summary(sources, by_name[name])),
                "groups": [{"group": shorten(group), "lag": lag.total} for group, lag in listed],
                "more_groups": more_groups,
            }
        )
        yield
    return {"topics": topics, "more": more}


def _head(sources: StatusSources, topic: TopicImage) -> Json:
    return {
        "name": topic.name,
        "id": uuid_to_string(topic.topic_id),
        "internal": topic.name in NEVER_TIERED,
        "tiered": sources.image.topic_config(topic.name).get(_TIERED) == "true",
    }


def _summary(sources: StatusSources, topic: TopicImage) -> Steps:
    partitions = topic.partitions
    records = local = remote = 0
    for count, number in enumerate(partitions, 1):
        if not count % _PARTITIONS_A_STEP:
            yield
        partition = sources.partition(topic.name, number)
        log = sources.log(topic.name, number)
        if log is not None and partition is not None:
            records += log.log_end_offset - log.log_start_offset
            local += log.size_in_bytes
            remote += bytes_in_tier(log) if partition.is_leader else 0
    return {
        **_head(sources, topic),
        "partitions": len(partitions),
        "replication": max((len(each.replicas) for each in partitions.values()), default=0),
        **count_troubled(partitions.values())._asdict(),
        "records": records,
        "bytes_local": local,
        "bytes_remote": remote,
    }


def topic_status(sources: StatusSources, topic: TopicImage, begin: int) -> Steps:
    """A topic and its partitions from number `begin` on."""
    numbers, more = page(sorted(topic.partitions), begin, PARTITIONS_MAX)
    most = max(_SEGMENTS_MIN, min(SEGMENTS_MAX, SEGMENTS_OF_ALL_MAX // max(1, len(numbers))))
    groups = yield from _groups_of(sources, topic, numbers)
    partitions: list[Json] = []
    for number in numbers:
        partition = sources.partition(topic.name, number)
        image = topic.partitions[number]
        shown = _partition_head(number, image, partition)
        log = sources.log(topic.name, number)
        partitions.append({**shown, **_log_status(sources, log, most, groups[number])})
        yield
    return {
        **_head(sources, topic),
        "configs": dict(sources.image.topic_config(topic.name)),
        "partitions": partitions,
        "more": more,
    }


def _partition_head(number: int, image: PartitionImage, partition: Partition | None) -> Json:
    return {
        "partition": number,
        "leader": image.leader,
        "leader_epoch": image.leader_epoch,
        "replicas": list(image.replicas),
        "isr": list(image.isr),
        "here": None if partition is None else partition.role.name.lower(),
    }


def _log_status(sources: StatusSources, log: UnifiedLog | None, most: int, groups: _Groups) -> Json:
    if log is None:
        empty: Json = {"segments": [], "more_segments": 0, "groups": [], "more_groups": 0}
        return {**NO_OFFSETS, **empty, "retention": None}
    remote = sources.remote
    segments, older = segments_status(
        log, most, lambda segment_id: None if remote is None else remote.copied_share(segment_id)
    )
    return {
        **offsets_status(log),
        "segments": segments,
        "more_segments": older,
        "groups": [
            {"group": shorten(group), "offset": offset, **lag_of(log, offset).as_json()}
            for group, offset in groups.listed
        ],
        "more_groups": groups.more,
        "retention": retention_status(log),
    }


def _groups_of(
    sources: StatusSources, topic: TopicImage, numbers: Sequence[int]
) -> Generator[None, None, dict[int, _Groups]]:
    """The groups of each of the partitions, in the order of their names."""
    query = FetchTopic(topic.name, topic.topic_id, numbers)
    groups = {number: _Groups() for number in numbers}
    shard_of = yield from shards_by_group(sources, lambda shard: shard.offsets.group_ids())
    for name in (yield from sorted_steps(list(shard_of))):
        for number, offset in shard_of[name].offsets.of_topic(name, query):
            of_partition = groups[number]
            if len(of_partition.listed) < GROUPS_MAX:
                of_partition.listed.append((name, offset))
            else:
                of_partition.more += 1
        yield
    return groups
