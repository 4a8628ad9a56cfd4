"""Partitions as groups of the consumer protocol count them: by topic id and number.

A topic that is deleted and made again is another topic, so nothing here goes by name.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from ....clients.kafka_uuid import Uuid

Partition: TypeAlias = tuple[Uuid, int]
"""Topic id and partition."""

Partitions: TypeAlias = frozenset[Partition]
"""What a member is to have, or says that it has."""

PartitionEpochs: TypeAlias = Mapping[Partition, int]
"""What a member holds, each with the epoch at which it was given it (KIP-1251)."""

NOTHING: Partitions = frozenset()
NOTHING_HELD: PartitionEpochs = MappingProxyType({})
