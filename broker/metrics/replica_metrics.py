"""The replicas of a broker among others, and its log directories, under Kafka's names.

They are counted when they are read (`ReplicaManager` and `LogManager` of Apache Kafka).
"""

from collections.abc import Callable, Sequence

from ...replication.leader.replica_manager import ReplicaManager
from ...replication.partition.partition import Partition, PartitionRole
from ...storage.directory.log_dir import LogDir
from .metrics import Metrics

_REPLICAS = "kafka.server:type=ReplicaManager"
_LOGS = "kafka.log:type=LogManager"


def register_replica_metrics(
    metrics: Metrics, replicas: ReplicaManager, log_dirs: Sequence[LogDir]
) -> None:
    """What an operator watches on every broker; a partition counts at its leader."""

    def gauge(name: str, counts: Callable[[Partition], bool]) -> None:
        def count() -> int:
            return sum(counts(partition) for partition in replicas.partitions.values())

        metrics.gauge(f"{_REPLICAS},name={name}", count)

    gauge("PartitionCount", lambda _: True)
    gauge("LeaderCount", _is_leader)
    gauge("OfflineReplicaCount", lambda each: each.role is PartitionRole.OFFLINE)
    gauge(
        "UnderReplicatedPartitions",
        lambda each: _is_leader(each) and _in_sync(each) < len(each.image.replicas),
    )
    gauge(
        "UnderMinIsrPartitionCount",
        lambda each: _is_leader(each) and _in_sync(each) < each.min_isr,
    )
    gauge(
        "AtMinIsrPartitionCount",
        lambda each: _is_leader(each) and _in_sync(each) == each.min_isr,
    )
    metrics.gauge(
        f"{_LOGS},name=OfflineLogDirectoryCount",
        lambda: sum(not log_dir.is_online for log_dir in log_dirs),
    )


def _is_leader(partition: Partition) -> bool:
    return partition.role is PartitionRole.LEADER


def _in_sync(partition: Partition) -> int:
    return len(partition.isr_state.isr)
