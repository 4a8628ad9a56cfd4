"""Offsets committed in transactions that are still undecided (KIP-98, KIP-447).

They are stored by producer id, which the marker carries, and counted by offset key and group, so
that a fetch of stable offsets can see which are undecided. A producer has one transaction at a
time, so its last commit for a key replaces the earlier ones.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from .group_records import OffsetEntry, OffsetKey


class PendingOffsets:
    """The undecided offsets of one partition of `__consumer_offsets`."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, OffsetEntry]] = {}
        # How many producers have an undecided offset for a key, and for any key of a group.
        self._keys: Counter[OffsetKey] = Counter()
        self._groups: Counter[str] = Counter()

    def add(self, producer_id: int, entries: Iterable[OffsetEntry]) -> None:
        """Add offsets that a transaction has written to the log."""
        pending = self._by_producer.setdefault(producer_id, {})
        for entry in entries:
            if entry.key not in pending:
                self._keys[entry.key] += 1
                self._groups[entry.key.group_id] += 1
            pending[entry.key] = entry

    def end(self, producer_id: int) -> Sequence[OffsetEntry]:
        """Remove and return the offsets of a producer whose transaction is decided."""
        ended = self._by_producer.pop(producer_id, {})
        for key in ended:
            self._discount(key)
        return list(ended.values())

    def discard(self, key: OffsetKey) -> None:
        """Forget the undecided offsets of a key, which a tombstone in the log has deleted."""
        if key not in self._keys:
            return
        for producer_id, pending in list(self._by_producer.items()):
            if pending.pop(key, None) is not None:
                self._discount(key)
            if not pending:
                del self._by_producer[producer_id]

    def _discount(self, key: OffsetKey) -> None:
        self._keys[key] -= 1
        self._groups[key.group_id] -= 1
        if not self._keys[key]:
            del self._keys[key]
        if not self._groups[key.group_id]:
            del self._groups[key.group_id]

    def has(self, key: OffsetKey) -> bool:
        """Whether an offset for this key is undecided."""
        return key in self._keys

    def has_group(self, group_id: str) -> bool:
        """Whether any offset of the group is undecided."""
        return group_id in self._groups

    def keys(self, group_id: str) -> list[OffsetKey]:
        """The keys of the group's undecided offsets."""
        return [key for key in self._keys if key.group_id == group_id]

    def keys_of_topic(self, topic: str) -> list[OffsetKey]:
        """The keys of undecided offsets for a topic, in any group."""
        return [key for key in self._keys if key.topic == topic]
