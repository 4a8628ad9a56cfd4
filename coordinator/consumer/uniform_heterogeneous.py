"""The uniform assignor for members that subscribe to different topics.

Based on Kafka's `UniformHeterogeneousAssignmentBuilder`. Each member keeps its partitions of topics
that it still subscribes to. Free partitions go to the least loaded subscribers of their topic;
topics with the most partitions per subscriber come first, because they leave the least choice. Then
each topic is balanced: its most loaded subscribers give partitions to its least loaded ones until
their loads differ by at most one. This repeats until a round moves nothing, at most 16 times.

In the end each topic's subscribers are balanced. The loads of members without a common topic may
still differ by more, because exchanges through a third member are not tried.
"""

import struct
from collections.abc import Mapping

from ...clients.kafka_uuid import Uuid
from .assignor_members import Members, TopicSizes, kept
from .topic_partitions import Partition, Partitions

MAX_ROUNDS = 16

_JAVA_UUID = struct.Struct(">qq")
_NOBODY = -1


def assign_balanced(members: Members, sizes: TopicSizes) -> dict[str, Partitions]:
    """The assignment of each member. Internally, members are positions in the mapping."""
    return _Balancing(members, sizes).assignment()


class _Balancing:
    def __init__(self, members: Members, sizes: TopicSizes) -> None:
        self._member_ids = list(members)
        self._subscribers: dict[Uuid, list[int]] = {}
        for index, member in enumerate(members.values()):
            for topic_id in member.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(index)
        self._owners = {topic: [_NOBODY] * sizes[topic] for topic in self._subscribers}
        self._loads = [0] * len(self._member_ids)
        for index, member in enumerate(members.values()):
            for topic_id, partition in kept(member, sizes):
                self._owners[topic_id][partition] = index
                self._loads[index] += 1

    def assignment(self) -> dict[str, Partitions]:
        topics = sorted(self._subscribers, key=self._topic_order)
        for topic_id in topics:
            self._hand_out(topic_id)
        shared = [topic_id for topic_id in topics if len(self._subscribers[topic_id]) > 1]
        self._level(shared)
        assigned: list[list[Partition]] = [[] for _ in self._member_ids]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                assigned[owner].append((topic_id, partition))
        return dict(zip(self._member_ids, map(frozenset, assigned), strict=True))

    def _topic_order(self, topic_id: Uuid) -> tuple[float, int, tuple[int, int]]:
        """Most partitions per subscriber, then fewest subscribers, then Java's order of ids."""
        partitions, subscribers = len(self._owners[topic_id]), len(self._subscribers[topic_id])
        high, low = _JAVA_UUID.unpack(topic_id)
        return -partitions / subscribers, subscribers, (high, low)

    def _hand_out(self, topic_id: Uuid) -> None:
        """Assign the free partitions to the least loaded subscribers."""
        owners = self._owners[topic_id]
        if _NOBODY not in owners:
            return
        scales = _Scales(self._subscribers[topic_id], self._loads)
        for partition, owner in enumerate(owners):
            if owner == _NOBODY:
                self._move(owners, partition, scales.next_receiver())

    def _level(self, topics: list[Uuid]) -> None:
        last_moved = -1
        for _ in range(MAX_ROUNDS):
            for place, topic_id in enumerate(topics):
                if place == last_moved:
                    return
                if self._level_topic(topic_id) or last_moved < 0:
                    last_moved = place

    def _level_topic(self, topic_id: Uuid) -> bool:
        """Balance one topic's partitions between its subscribers; True if any moved."""
        scales = _Scales(self._subscribers[topic_id], self._loads)
        if scales.imbalance <= 1:
            return False
        owners = self._owners[topic_id]
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        moved = False
        # Received partitions are not added to `owned`, so that they are not moved again.
        while (giver := scales.next_giver(owned)) is not None:
            partition = owned[giver].pop()
            receiver = scales.next_receiver()
            if scales.is_level:
                break
            self._move(owners, partition, receiver)
            moved = True
        return moved

    def _move(self, owners: list[int], partition: int, receiver: int) -> None:
        if owners[partition] != _NOBODY:
            self._loads[owners[partition]] -= 1
        owners[partition] = receiver
        self._loads[receiver] += 1


class _Scales:
    """One topic's subscribers sorted by load, with the least and the most loaded as two plateaus.

    Both plateaus are empty at first. When each member of the low plateau has received a partition,
    the plateau rises by one and includes the members with that load. The high plateau falls in the
    same way when its members have given.
    """

    def __init__(self, subscribers: list[int], loads: list[int]) -> None:
        self._loads = loads
        self._members = sorted(subscribers, key=lambda member: (loads[member], member))
        lowest, highest = loads[self._members[0]], loads[self._members[-1]]
        self.imbalance = highest - lowest
        self._low_height, self._low_end, self._next_low = lowest - 1, 0, 0
        count = len(self._members)
        self._high_height, self._high_start, self._high_end = highest + 1, count, count
        self._next_high = count - 1

    @property
    def is_level(self) -> bool:
        return self._high_height - self._low_height <= 1

    def next_receiver(self) -> int:
        """The member that receives next; the call counts as receiving."""
        if self._next_low >= self._low_end:
            self._low_height += 1
            while self._low_end < len(self._members) and (
                self._load_at(self._low_end) == self._low_height
            ):
                self._low_end += 1
            self._next_low = 0
        self._next_low += 1
        return self._members[self._next_low - 1]

    def next_giver(self, owned: Mapping[int, list[int]]) -> int | None:
        """The member that gives next, or None if none can; the call counts as giving."""
        while True:
            if self._next_high < self._high_start:
                self._lower()
            if self._next_high < 0:
                return None
            place, self._next_high = self._next_high, self._next_high - 1
            if owned.get(self._members[place]):
                return self._members[place]
            self._exclude(place)

    def _lower(self) -> None:
        if self._high_end <= self._high_start and self._high_start > 0:
            # The whole plateau was excluded: continue at the load of the next members.
            self._high_height = self._load_at(self._high_start - 1)
        else:
            self._high_height -= 1
        while self._high_start > 0 and self._load_at(self._high_start - 1) == self._high_height:
            self._high_start -= 1
        self._next_high = self._high_end - 1

    def _exclude(self, place: int) -> None:
        last = self._high_end - 1
        self._members[place], self._members[last] = self._members[last], self._members[place]
        self._high_end = last

    def _load_at(self, place: int) -> int:
        return self._loads[self._members[place]]
