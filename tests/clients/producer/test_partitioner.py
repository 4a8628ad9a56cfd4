"""Keys go where Kafka's clients send them."""

from random import Random

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.producer.partitioner import StickyPartitioner, murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        # The vectors of Kafka's own `UtilsTest.testMurmur2`.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_kafkas_murmur2(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF


@given(key=st.binary(max_size=100), count=st.integers(1, 1000))
def test_a_keys_partition_is_one_of_the_partitions_and_always_the_same(
    key: bytes, count: int
) -> None:
    partition = partition_for_key(key, count)
    assert 0 <= partition < count
    assert StickyPartitioner(Random(1)).partition("t", key, count) == partition


def test_records_without_a_key_stay_together_until_a_batch_is_full() -> None:
    partitioner = StickyPartitioner(Random(1))
    chosen = {partitioner.partition("t", None, 8) for _ in range(20)}
    assert len(chosen) == 1
    seen: set[int] = set()
    for _ in range(100):
        partition = partitioner.partition("t", None, 8)
        seen.add(partition)
        partitioner.on_batch_full("t", partition)
    assert seen == set(range(8))


def test_a_full_batch_elsewhere_changes_nothing() -> None:
    partitioner = StickyPartitioner(Random(1))
    stuck = partitioner.partition("t", None, 8)
    partitioner.on_batch_full("t", (stuck + 1) % 8)
    assert partitioner.partition("t", None, 8) == stuck
