"""Which replicas on this broker are under a replication quota, and what that means (KIP-73).

A topic's configuration lists them as `partition:broker` pairs, or as `*` for all: one list for the
brokers that lead (`leader.replication.throttled.replicas`), one for those that follow
(`follower.replication.throttled.replicas`). Their bytes are counted whether a replica is in sync or
not; only those that are not in sync wait while the quota is exceeded, so that no throttle takes a
replica out of the ISR (`ReplicaManager.shouldLeaderThrottle`).
"""

from collections.abc import Callable

from ..clients.topic_partition import TopicPartition
from ..storage.config import LogConfig
from .replication_quota import ReplicationQuota

_ALL = ("*",)
_TOPICS_MAX = 10_000
"""The most topics whose lists are kept parsed."""


class ThrottledReplicas:
    """One side's quota and the replicas on this broker that are under it."""

    def __init__(
        self,
        quota: ReplicationQuota,
        broker_id: int,
        listed: Callable[[LogConfig], tuple[str, ...]],
    ) -> None:
        """`listed` reads this side's list from the configuration of a topic."""
        self.quota = quota
        self._broker_id = broker_id
        self._listed = listed
        # By topic: the list, and this broker's partitions in it.
        self._parsed: dict[str, tuple[tuple[str, ...], frozenset[int]]] = {}

    def includes(self, partition: TopicPartition, config: LogConfig) -> bool:
        """Whether this broker's replica of the partition is listed."""
        listed = self._listed(config)
        if not listed:
            return False
        if listed == _ALL:
            return True
        parsed = self._parsed.get(partition.topic)
        if parsed is None or parsed[0] is not listed:
            if len(self._parsed) >= _TOPICS_MAX:
                self._parsed.clear()
            parsed = (listed, partitions_of(listed, self._broker_id))
            self._parsed[partition.topic] = parsed
        return partition.partition in parsed[1]

    def holds_back(self, partition: TopicPartition, config: LogConfig, now: float) -> bool:
        """Whether a replica that is not in sync must wait."""
        return self.quota.is_exceeded(now) and self.includes(partition, config)

    def record(self, partition: TopicPartition, config: LogConfig, nbytes: int, now: float) -> None:
        """Count replicated bytes, if the replica is listed."""
        if nbytes and self.includes(partition, config):
            self.quota.record(nbytes, now)


def partitions_of(listed: tuple[str, ...], broker_id: int) -> frozenset[int]:
    """The partitions that a list of `partition:broker` pairs names for this broker."""
    pairs = (each.partition(":") for each in listed)
    return frozenset(int(partition) for partition, _, broker in pairs if int(broker) == broker_id)
