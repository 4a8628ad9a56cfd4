"""Chooses the partition of each record: for a key, the same one as Kafka's own clients.

The partition of a key is its 32-bit hash, without the sign bit, modulo the number of partitions.
The hash is Kafka's `Utils.murmur2`, with the same seed and handling of the tail. Records without a
key go to one random partition until a batch is full, and then to another (KIP-480, KIP-794),
because a few full batches cost less than many small ones.
"""

from random import Random

_SEED = 0x9747B28C
_M = 0x5BD1E995
_ROTATION = 24
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The unsigned 32-bit hash that Kafka's clients use for keys."""
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        word = (word ^ word >> _ROTATION) * _M & _MASK
        hashed = (hashed * _M & _MASK) ^ word
    if whole < length:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    return hashed ^ hashed >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a key, given the number of partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """Chooses partitions for records without an explicit partition."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._sticky: dict[str, int] = {}

    def partition(self, topic: str, key: bytes | None, partition_count: int) -> int:
        """The key's partition or, without a key, the topic's current sticky partition."""
        assert partition_count > 0
        if key is not None:
            return partition_for_key(key, partition_count)
        current = self._sticky.get(topic)
        if current is None or current >= partition_count:
            current = self._sticky[topic] = self._random.randrange(partition_count)
        return current

    def on_batch_full(self, topic: str, partition: int) -> None:
        """Stop using a partition whose batch is full; the next keyless record chooses another."""
        if self._sticky.get(topic) == partition:
            del self._sticky[topic]
