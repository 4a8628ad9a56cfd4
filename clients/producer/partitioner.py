"""Which partition a record goes to, so that every client sends a key to the same one.

Keys are hashed by the 32-bit murmur2 of Kafka's `Utils.murmur2` (its seed and its treatment of the
tail included), made positive by dropping the sign bit, modulo the number of partitions.
Records without a key stay on one randomly chosen partition until a batch is full, and then move on
to another (KIP-480, KIP-794), because a few full batches cost less than many small ones.
"""

from random import Random

_SEED = 0x9747B28C
_M = 0x5BD1E995
_ROTATION = 24
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The unsigned 32-bit hash that Kafka's clients take of a key."""
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
    """The partition of a key among this many."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """Chooses partitions for records that name none."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._sticky: dict[str, int] = {}

    def partition(self, topic: str, key: bytes | None, partition_count: int) -> int:
        """The key's partition, or the one the topic's keyless records go to at present."""
        assert partition_count > 0
        if key is not None:
            return partition_for_key(key, partition_count)
        current = self._sticky.get(topic)
        if current is None or current >= partition_count:
            current = self._sticky[topic] = self._random.randrange(partition_count)
        return current

    def on_batch_full(self, topic: str, partition: int) -> None:
        """Let go of a partition whose batch is full; the next keyless record chooses anew."""
        if self._sticky.get(topic) == partition:
            del self._sticky[topic]
