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
            self._keys[key] -= 1
            self._groups[key.group_id] -= 1
            if not self._keys[key]:
                del self._keys[key]
            if not self._groups[key.group_id]:
                del self._groups[key.group_id]
        return list(ended.values())

    def has(self, key: OffsetKey) -> bool:
        """Whether an offset for this key is undecided."""
        return key in self._keys

    def has_group(self, group_id: str) -> bool:
        """Whether any offset of the group is undecided."""
        return group_id in self._groups

    def keys(self, group_id: str) -> list[OffsetKey]:
        """The keys of the group's undecided offsets."""
        return [key for key in self._keys if key.group_id == group_id]
