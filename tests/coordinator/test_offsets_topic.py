"""Java's hash decides which broker coordinates a group."""

import pytest

from tierlog.coordinator.group_config import GroupCoordinatorConfig
from tierlog.coordinator.offsets_topic import (
    OFFSETS_TOPIC,
    creatable_internal_topic,
    java_string_hash,
    partition_for,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(1 << 31)),
        ("🎈", 0xD83C * 31 + 0xDF88),
    ],
)
def test_the_hash_is_javas(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_the_number_without_a_positive_twin_becomes_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0


def test_the_offsets_topic_is_compacted_and_has_its_own_size() -> None:
    config = GroupCoordinatorConfig(offsets_topic_replication_factor=1)
    topic = creatable_internal_topic(OFFSETS_TOPIC, config)
    assert (topic.num_partitions, topic.replication_factor) == (50, 1)
    assert {each.name: each.value for each in topic.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
