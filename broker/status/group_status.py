"""The groups that this broker coordinates: their lag by topic, and their members.

A broker has all committed offsets and all ends in memory, so no group is asked for one by one.
"""

from collections.abc import Callable, Collection, Generator, Iterable
from typing import TYPE_CHECKING, NamedTuple

from ...clients.runtime.steps import sorted_steps
from ...coordinator.group_records import CommittedOffset
from ...coordinator.led_shards import ShardState
from ...coordinator.offsets import NO_OFFSET
from .partition_status import Lag
from .sources import Json, StatusSources, Steps, page, shorten

if TYPE_CHECKING:
    from ...coordinator.group.group_shard import GroupShard

GROUPS_MAX = 500
MEMBERS_MAX = 20
TOPICS_MAX = 20
"""Topics that are listed with a group."""
_OFFSETS_A_STEP = 64
_NAMES_A_STEP = 256

LagsByTopic = dict[str, list[tuple[str, Lag]]]
"""The groups of each topic, and their lag."""


class _TopicLag(NamedTuple):
    """A group's lag of one topic, and with how many partitions."""

    partitions: int
    lag: Lag


class _Ends:
    """Where the logs begin and end, each looked up once for all groups of an answer."""

    def __init__(self, sources: StatusSources) -> None:
        self._sources = sources
        self._by_topic: dict[str, dict[int, tuple[int, int, int]]] = {}

    def lag(self, topic: str, offsets: Iterable[tuple[int, CommittedOffset]]) -> Lag:
        """The sum of a group's lags over partitions of a topic; `lag_of` says what each is."""
        ends = self._by_topic.setdefault(topic, {})
        total = in_tier = local = 0
        for partition, committed in offsets:
            offset = committed.offset
            if offset == NO_OFFSET:
                continue
            log_start, local_start, end = ends.get(partition) or self._look_up(topic, partition)
            if offset < end:
                begin = max(offset, log_start)
                total += end - offset
                in_tier += max(0, min(local_start, end) - begin)
                local += max(0, end - max(begin, local_start))
        return Lag(total, in_tier, local)

    def _look_up(self, topic: str, partition: int) -> tuple[int, int, int]:
        log = self._sources.log(topic, partition)
        ends = (0, 0, 0)
        if log is not None:
            ends = log.log_start_offset, log.local_log_start_offset, log.high_watermark
        self._by_topic[topic][partition] = ends
        return ends


def count_groups(sources: StatusSources) -> int:
    """How many groups this broker serves."""
    return sum(len(shard.groups) + len(shard.consumer_groups.all()) for shard in sources.shards())


def lags_by_topic(
    sources: StatusSources, topics: Collection[str]
) -> Generator[None, None, LagsByTopic]:
    """The groups with committed offsets of these topics, and the lag of each."""
    lags: LagsByTopic = {}
    ends = _Ends(sources)
    for shard in sources.shards():
        for group_id in shard.offsets.group_ids():
            by_topic = yield from _topic_lags(ends, shard, group_id, topics)
            for topic, (_, lag) in by_topic.items():
                lags.setdefault(topic, []).append((group_id, lag))
    return lags


def _topic_lags(
    ends: _Ends,
    shard: "GroupShard",
    group_id: str,
    topics: Collection[str] | None = None,
) -> Generator[None, None, dict[str, _TopicLag]]:
    """A group's lag by topic; of these topics only, unless None."""
    lags: dict[str, _TopicLag] = {}
    for topic, offsets in list(shard.offsets.fetch_all(group_id)):
        if topics is not None and topic not in topics:
            continue
        total, committed = Lag(), list(offsets.items())
        for begin in range(0, len(committed), _OFFSETS_A_STEP):
            total += ends.lag(topic, committed[begin : begin + _OFFSETS_A_STEP])
            yield
        lags[topic] = _TopicLag(len(committed), total)
    yield
    return lags


def groups_status(sources: StatusSources, begin: int) -> Steps:
    """The groups from number `begin` on, in the order of their names."""
    shard_of = yield from shards_by_group(sources, _group_ids)
    names, more = page((yield from sorted_steps(list(shard_of))), begin, GROUPS_MAX)
    ends = _Ends(sources)
    groups: list[Json] = []
    for name in names:
        shard = shard_of[name]
        head = _head(shard, name)
        if head is None:
            continue
        lags = yield from _topic_lags(ends, shard, name)
        groups.append({**head, **_lags_status(lags), **_members_status(shard, name)})
    loading = sum(shard.state is ShardState.LOADING for shard in sources.all_shards())
    return {"groups": groups, "more": more, "loading": loading}


def shards_by_group(
    sources: StatusSources, ids_of: "Callable[[GroupShard], list[str]]"
) -> "Generator[None, None, dict[str, GroupShard]]":
    """The shard of each group that `ids_of` lists."""
    shard_of: dict[str, GroupShard] = {}
    for shard in sources.shards():
        for count, group_id in enumerate(ids_of(shard), 1):
            shard_of[group_id] = shard
            if not count % _NAMES_A_STEP:
                yield
        yield
    return shard_of


def _group_ids(shard: "GroupShard") -> list[str]:
    return [*shard.groups, *(group.group_id for group in shard.consumer_groups.all())]


def _head(shard: "GroupShard", group_id: str) -> Json | None:
    """What kind of group it is, and its state; None if it is gone."""
    consumers = shard.consumer_groups.get(group_id)
    if consumers is not None:
        state = consumers.state.value
        name = shorten(group_id)
        return {"group": name, "type": "consumer", "protocol": "consumer", "state": state}
    group = shard.groups.get(group_id)
    if group is None:
        return None
    return {
        "group": shorten(group_id),
        "type": "classic",
        "protocol": shorten(group.protocol_type or ""),
        "state": group.state.value,
    }


def _lags_status(lags: dict[str, _TopicLag]) -> Json:
    listed, more = page(sorted(lags), 0, TOPICS_MAX)
    total = sum((lag.lag for lag in lags.values()), Lag())
    topics: list[Json] = [
        {"topic": topic, "partitions": lags[topic].partitions, **lags[topic].lag.as_json()}
        for topic in listed
    ]
    return {**total.as_json(), "topics": topics, "more_topics": more}


def _members_status(shard: "GroupShard", group_id: str) -> Json:
    members: list[Json] = []
    consumers = shard.consumer_groups.get(group_id)
    if consumers is not None:
        for consumer in consumers.members.values():
            said = consumer.metadata
            members.append(
                _member(consumer.member_id, said.client_id, said.client_host, said.instance_id)
            )
    elif group_id in shard.groups:
        members += [
            _member(member.member_id, member.client_id, member.client_host, member.instance_id)
            for member in shard.groups[group_id].members.by_id.values()
        ]
    listed, more = page(members, 0, MEMBERS_MAX)
    return {"members": list(listed), "more_members": more}


def _member(member_id: str, client: str, host: str, instance: str | None) -> Json:
    return {
        "member": shorten(member_id),
        "client": shorten(client),
        "host": host,
        "instance": None if instance is None else shorten(instance),
    }
