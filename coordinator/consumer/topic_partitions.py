"""Partitions of consumer protocol groups, by topic id and partition number.

Topic names are not used, because a topic that is deleted and created again is a different topic.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from ...clients.kafka_uuid import Uuid

Partition: TypeAlias = tuple[Uuid, int]
"""Topic id and partition."""

Partitions: TypeAlias = frozenset[Partition]
"""A member's target assignment, or the partitions that it reports as owned."""

PartitionEpochs: TypeAlias = Mapping[Partition, int]
"""The partitions that a member holds, each with its assignment epoch (KIP-1251)."""

NOTHING: Partitions = frozenset()
NO_PARTITIONS: PartitionEpochs = MappingProxyType({})
