"""The last offset of each key in the dirty part of a log (Kafka's `SkimpyOffsetMap`).

A key shorter than 16 bytes is stored as it is, a longer key as its 16-byte digest (Kafka stores MD5
digests of all keys and accepts the same risk of a collision). The number of slots is
`log.cleaner.dedupe.buffer.size` divided by the memory that an entry needs. Kafka packs an entry
into 24 bytes; a Python dictionary needs about eight times as much. A log with more keys than slots
is cleaned in several rounds.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BYTES_PER_SLOT = 192
"""Bytes for a digest, an offset and their slot in a dictionary just before its size doubles."""

_DIGEST_BYTES = 16


class OffsetMap:
    """At most `capacity` keys, each with its highest offset."""

    def __init__(self, capacity: int) -> None:
        assert capacity > 0
        # Imported here because hashlib loads OpenSSL, which would slow down every start.
        from hashlib import blake2b

        def digest(key: bytes) -> bytes:
            return blake2b(key, digest_size=_DIGEST_BYTES).digest()

        self._capacity = capacity
        self._digest: Callable[[bytes], bytes] = digest
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1
        """The last offset that the map covers: all records up to it were read, and none above."""

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def utilization(self) -> float:
        """The fraction of slots in use, from 0 to 1."""
        return len(self._offsets) / self._capacity

    def put(self, key: bytes, offset: int) -> bool:
        """Store the offset of a key's next record; False if no slot is left."""
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
        """Record that everything up to and including `offset` was read."""
        self.latest_offset = max(self.latest_offset, offset)


def capacity_of(buffer_bytes: int, load_factor: float) -> int:
    """How many keys a map of this size may hold; at least one, so that cleaning progresses."""
    return max(1, int(buffer_bytes * load_factor) // BYTES_PER_SLOT)
