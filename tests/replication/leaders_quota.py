"""Shared by tests: a leader whose followers are under a replication quota (KIP-73)."""

from tierlog.replication.leader.replica_manager import ReplicaParts
from tierlog.replication.metadata.metadata_records import ConfigRecord
from tierlog.replication.replication_quota import ReplicationQuota
from tierlog.replication.throttled_replicas import ThrottledReplicas

from .three_replicas import LEADER, Leader, PartsOf

RATE = 1_000


def rated() -> ReplicationQuota:
    quota = ReplicationQuota()
    quota.bytes_per_second = RATE
    return quota


def within(quota: ReplicationQuota) -> PartsOf:
    """A leader that keeps its followers within the quota."""
    throttle = ThrottledReplicas(
        quota, LEADER, lambda topic: topic.leader_replication_throttled_replicas
    )
    return lambda _: ReplicaParts(throttle=throttle)


def listed(leader: Leader, *replicas: str) -> None:
    name = "leader.replication.throttled.replicas"
    leader.publish(
        ConfigRecord(resource_type=2, resource_name="t", name=name, value=",".join(replicas))
    )
