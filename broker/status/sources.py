"""What the status of a broker is collected from: the objects that it holds in memory.

Collecting reads no disk, asks no other broker and changes nothing. It is done in steps
(`clients/runtime/steps.py`), each of a fraction of a millisecond; between steps the objects may
change, so what is iterated over is copied first. Every list has a bound, and says how many elements
are left out.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ...clients.topic_partition import TopicPartition
from ...coordinator.led_shards import ShardState
from ...replication.metadata.cluster_image import ClusterImage
from ...replication.partition.partition import Partition, PartitionRole
from ...storage.log.unified_log import UnifiedLog
from ..request.context import BrokerContext

if TYPE_CHECKING:
    from ...coordinator.group.group_shard import GroupShard
    from ...tiering.remote_log_manager import RemoteLogManager

T = TypeVar("T")

Json = dict[str, object]
"""An object of an answer; what it holds is made of dicts, lists, text, numbers and None."""

Steps = Generator[None, None, Json]
"""Collects an answer, in steps."""

NAME_MAX = 500
"""Characters of a client's name that are shown; Kafka allows 32,767."""

_SERVED = (PartitionRole.LEADER, PartitionRole.FOLLOWER)


@dataclass(frozen=True, slots=True)
class StatusSources:
    """One broker's objects."""

    broker: BrokerContext
    remote: "RemoteLogManager | None"
    """None if this broker has no remote tier of its own."""

    @property
    def image(self) -> ClusterImage:
        """The cluster's metadata now."""
        return self.broker.controller.image

    @property
    def controller_id(self) -> int:
        """The active controller; -1 while there is none."""
        member = self.broker.member
        return self.broker.controller.leader_id if member is None else member.quorum.leader_id

    def partition(self, topic: str, number: int) -> Partition | None:
        """The replica of a partition on this broker."""
        return self.broker.replica_manager.partitions.get(TopicPartition(topic, number))

    def log(self, topic: str, number: int) -> UnifiedLog | None:
        """The log of the replica here; None if there is none, or its directory has failed."""
        partition = self.partition(topic, number)
        return None if partition is None or partition.role not in _SERVED else partition.log

    def all_shards(self) -> "Sequence[GroupShard]":
        """The partitions of the groups' topic that this broker leads, those being read too."""
        coordinator = self.broker.groups.running
        return () if coordinator is None else coordinator.shards()

    def shards(self) -> "Sequence[GroupShard]":
        """Those of them whose groups are served."""
        return [shard for shard in self.all_shards() if shard.state is ShardState.ACTIVE]


def shorten(name: str) -> str:
    """A name that a client has chosen, whose end is cut off if it is longer than `NAME_MAX`."""
    return name if len(name) <= NAME_MAX else f"{name[:NAME_MAX]}…"


def page(elements: Sequence[T], begin: int, most: int) -> tuple[Sequence[T], int]:
    """At most `most` elements from number `begin` on, and how many come after them."""
    return elements[begin : begin + most], max(0, len(elements) - begin - most)
