"""The server-side assignors of the consumer protocol (KIP-848).

They are pure functions from a group's members and the sizes of their topics to a target assignment.
They return the same result as Apache Kafka 4.3.1's `UniformAssignor` and `RangeAssignor` for the
same members in the same order. Kafka iterates over hash maps, whose order cannot be relied on; here
members are in the order of the mapping, and topics in the order of their ids.

- `uniform` gives each member the same number of partitions, plus or minus one, with as few moves as
  possible. This is exact if all members subscribe to the same topics; otherwise see
  `uniform_heterogeneous.py`.
- `range` splits each topic into ranges for its subscribers, in the order of instance ids and then
  member ids, so that one member gets partitions with the same numbers from several topics. It
  ignores the previous assignment.

Neither considers racks. Partitions without a subscriber and deleted topics are not assigned.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from ...clients.kafka_uuid import Uuid
from .assignor_members import AssignorMember, Members, TopicSizes, kept
from .topic_partitions import Partition, Partitions
from .uniform_heterogeneous import assign_balanced

Assignor: TypeAlias = Callable[[Members, TopicSizes], dict[str, Partitions]]
"""Maps the members by id and the partition count of each subscribed topic to each member's
assignment."""


def assign_uniform(members: Members, sizes: TopicSizes) -> dict[str, Partitions]:
    """Assign each member the same number of partitions, plus or minus one, with minimal moves."""
    subscriptions = {member.topic_ids for member in members.values()}
    if len(subscriptions) > 1:
        return assign_balanced(members, sizes)
    topics = sorted(next(iter(subscriptions), frozenset[Uuid]()))
    every = [(topic_id, number) for topic_id in topics for number in range(sizes[topic_id])]
    return _assign_evenly(members, sizes, every)


def _assign_evenly(
    members: Members, sizes: TopicSizes, every: Sequence[Partition]
) -> dict[str, Partitions]:
    """Let members keep partitions up to their quota; the rest fill the other quotas, in order."""
    had = {member_id: kept(member, sizes) for member_id, member in members.items()}
    kept_by_any = {partition for partitions in had.values() for partition in partitions}
    free = [partition for partition in every if partition not in kept_by_any]
    share, extras = divmod(len(every), len(members) or 1)
    assigned: dict[str, list[Partition]] = {}
    missing: dict[str, int] = {}
    for index, (member_id, partitions) in enumerate(had.items()):
        quota = share + (extras > 0)
        keeps = assigned[member_id] = partitions[:quota]
        free.extend(partitions[quota:])
        remaining = quota - len(keeps)
        took_extra = extras > 0
        if remaining and took_extra and len(members) - index > extras:
            # Leave the extra partition to a later member, which may have one already; there are
            # at least as many later members as extra partitions.
            remaining -= 1
            took_extra = False
        missing[member_id] = remaining
        extras -= took_extra
    position = 0
    for member_id, remaining in missing.items():
        assigned[member_id] += free[position : position + remaining]
        position += remaining
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}


def assign_range(members: Members, sizes: TopicSizes) -> dict[str, Partitions]:
    """Split each topic into one range per subscriber; the first ranges get the remainder."""
    in_order = sorted(members, key=lambda member_id: _range_order(member_id, members[member_id]))
    subscribers: dict[Uuid, list[str]] = {}
    for member_id in in_order:
        for topic_id in members[member_id].topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    assigned: dict[str, list[Partition]] = {member_id: [] for member_id in members}
    for topic_id, interested in subscribers.items():
        share, extras = divmod(sizes[topic_id], len(interested))
        first = 0
        for index, member_id in enumerate(interested):
            end = first + share + (index < extras)
            assigned[member_id] += [(topic_id, number) for number in range(first, end)]
            first = end
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}


def _range_order(member_id: str, member: AssignorMember) -> tuple[bool, bytes]:
    """Static members first, by instance id. Java compares strings by their UTF-16 code units."""
    name = member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, name.encode("utf-16-be", "surrogatepass")


ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {"uniform": assign_uniform, "range": assign_range}
)
"""The assignors by their names in requests and in `group.consumer.assignors`."""
