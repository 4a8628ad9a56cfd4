"""The range assignor, which divides partitions among group members (`RangeAssignor` in Kafka).

Each topic is divided separately: its subscribers, in the order of their member ids, get consecutive
ranges of partitions; if the division leaves a remainder, the first few get one more partition each.
"""

from collections.abc import Mapping, Sequence

from ..topic_partition import TopicPartition

RANGE = "range"


def assign_ranges(
    subscriptions: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Partitions by member id; topics whose partition count is unknown are left out."""
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    for topic in sorted({topic for topics in subscriptions.values() for topic in topics}):
        members = sorted(member for member, topics in subscriptions.items() if topic in topics)
        each, rest = divmod(partition_counts.get(topic, 0), len(members))
        start = 0
        for index, member in enumerate(members):
            end = start + each + (1 if index < rest else 0)
            assigned[member] += [TopicPartition(topic, number) for number in range(start, end)]
            start = end
    return assigned
