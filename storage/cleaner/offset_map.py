"""The last offset of each key in the uncleaned part of a log: what a cleaning decides by.

A key of fewer than sixteen bytes stands for itself, a longer one by its digest of sixteen bytes
(Kafka keeps MD5 digests of all keys and takes the same chance of two being alike). The map is
bounded by memory: `log.cleaner.dedupe.buffer.size` divided by what an entry costs here gives its
slots. Kafka packs an entry into 24 bytes; a Python dictionary needs about eight times as much, and
a log with more keys than slots is cleaned in several rounds instead (`SkimpyOffsetMap` in Kafka).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BYTES_PER_SLOT = 192
"""A digest, an offset and their place in a dictionary that is about to double."""

_DIGEST_BYTES = 16


class OffsetMap:
    """At most `capacity` keys, each with the highest offset that was put for it."""

    def __init__(self, capacity: int) -> None:
        assert capacity > 0
        # Only here: hashlib loads OpenSSL, for which no start should wait.
        from hashlib import blake2b

        def digest(key: bytes) -> bytes:
            return blake2b(key, digest_size=_DIGEST_BYTES).digest()

        self._capacity = capacity
        self._digest: Callable[[bytes], bytes] = digest
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1
        """Everything up to it was seen: above it nothing is known of any key."""

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def utilization(self) -> float:
        """The part of the slots that is in use, from 0 to 1."""
        return len(self._offsets) / self._capacity

    def put(self, key: bytes, offset: int) -> bool:
        """Note a key's next record; False if there is no slot left for it."""
        if len(self._offsets) >= self._capacity:
            return False
        self._offsets[self._short(key)] = offset
        self.latest_offset = offset
        return True

    def get(self, key: bytes) -> int:
        """The highest offset of a key, -1 if it is not in the map."""
        return self._offsets.get(self._short(key), -1)

    def _short(self, key: bytes) -> bytes:
        return key if len(key) < _DIGEST_BYTES else self._digest(key)

    def saw_up_to(self, offset: int) -> None:
        """Say that everything up to and including `offset` was looked at."""
        self.latest_offset = max(self.latest_offset, offset)


def capacity_of(buffer_bytes: int, load_factor: float) -> int:
    """How many keys a map within these bounds may hold; at least one, or nothing would move."""
    return max(1, int(buffer_bytes * load_factor) // BYTES_PER_SLOT)
