"""The changes of roles in one publication, and which of them the remote tier hears of."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...clients.topic_partition import TopicIdPartition
from ..partition.partition import Partition
from ..topic_names import NEVER_TIERED

if TYPE_CHECKING:
    from ...tiering.remote_log_manager import LeaderPartition


class RoleChanges:
    """The changes in one publication that are passed on all together: to the remote tier, and to
    those who fetch from leaders."""

    def __init__(self) -> None:
        self.leaders: list[Partition] = []
        self.followers: list[Partition] = []
        self.updated: list[Partition] = []


def as_leaders(partitions: Iterable[Partition]) -> "list[LeaderPartition]":
    """The partitions as the remote tier knows those that this broker leads."""
    from ...tiering.remote_log_manager import LeaderPartition

    return [
        LeaderPartition(partition.topic_id_partition, partition.leader_epoch)
        for partition in partitions
    ]


def as_followers(partitions: Iterable[Partition]) -> list[TopicIdPartition]:
    """The partitions as the remote tier knows those that this broker follows."""
    return [partition.topic_id_partition for partition in partitions]


def with_tiering(partitions: Iterable[Partition]) -> list[Partition]:
    """The partitions whose segments are tiered (`RemoteLogManager.filterPartitions`)."""
    return [
        partition
        for partition in partitions
        if partition.log.config.remote_storage_enable
        and partition.topic_partition.topic not in NEVER_TIERED
    ]


def with_disabled_tiering(partitions: Iterable[Partition]) -> list[Partition]:
    """The partitions that are no longer tiered and whose remote data must be deleted."""
    return [
        partition
        for partition in partitions
        if partition.log.config.remote_log_delete_on_disable
        and not partition.log.config.remote_storage_enable
        and partition.topic_partition.topic not in NEVER_TIERED
    ]
