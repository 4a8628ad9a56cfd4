"""Wires the fetchers of a member: its settings, the addresses of leaders, its metrics.

Also what concerns followers on the leader's side: the throttles of replication (KIP-73), and the
choice of the replica that a consumer reads from (KIP-392).
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ...clients.network.network import Address
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...clients.topic_partition import TopicPartition
from ...replication.follower.replica_fetcher import FetcherTools
from ...replication.follower.replica_fetchers import ReplicaFetchers
from ...replication.follower.tier_reads import FetchAux
from ...replication.leader.replica_manager import ReplicaManager
from ...replication.leader.replica_selection import RackAwareSelection
from ...replication.metadata.cluster_image import ClusterImage
from ...replication.replication_quota import ReplicationQuota
from ...replication.throttled_replicas import ThrottledReplicas
from ..config.config import BrokerConfig
from ..config.config_values import ConfigValues
from ..config.listeners import listener_of_brokers
from ..config.settings import replica_fetcher_config, replication_rates
from ..config.tls_listeners import node_security
from ..metrics.metrics import Metrics

_MANAGER = "kafka.server:type=ReplicaFetcherManager"
_BYTES_IN = "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesInPerSec"


class Throttles(NamedTuple):
    """The two replication quotas of a broker."""

    leader: ThrottledReplicas
    follower: ThrottledReplicas

    def limit(self, values: ConfigValues) -> None:
        """Use the current rates (a listener of the dynamic configuration)."""
        self.leader.quota.bytes_per_second, self.follower.quota.bytes_per_second = (
            replication_rates(values)
        )


class FollowingHooks(NamedTuple):
    """What the fetchers tell of their responses, and what holds them back."""

    throttle: ThrottledReplicas
    on_high_watermark: Callable[[TopicPartition], None]
    count_bytes: Callable[[int], None]


def following_hooks(
    replicas: ReplicaManager, metrics: Metrics, throttles: Throttles
) -> FollowingHooks:
    """Consumers of followed partitions are answered, and the replicated bytes are counted."""
    bytes_in = metrics.counter(_BYTES_IN)
    return FollowingHooks(throttles.follower, replicas.on_high_watermark, bytes_in.add)


def make_throttles(config: BrokerConfig) -> Throttles:
    """Without limits at first; topics' configurations list the replicas."""

    def quota() -> ReplicationQuota:
        return ReplicationQuota(
            config.values.integer("replication.quota.window.num"),
            config.values.integer("replication.quota.window.size.seconds"),
        )

    return Throttles(
        ThrottledReplicas(
            quota(), config.node_id, lambda topic: topic.leader_replication_throttled_replicas
        ),
        ThrottledReplicas(
            quota(), config.node_id, lambda topic: topic.follower_replication_throttled_replicas
        ),
    )


def serve_followers(
    config: BrokerConfig,
    replicas: ReplicaManager,
    throttles: Throttles,
    image: Callable[[], ClusterImage],
) -> None:
    """Keep followers within the leaders' quota, and choose replicas for consumers if configured."""
    replicas.throttle_followers(throttles.leader)
    if config.values.text("replica.selector.class").strip():
        replicas.read_near(RackAwareSelection(lambda broker_id: image().brokers.get(broker_id)))


def make_replica_fetchers(
    config: BrokerConfig,
    environment: Environment,
    supervisor: Supervisor,
    image: Callable[[], ClusterImage],
    broker_epoch: Callable[[], int],
    hooks: FollowingHooks,
    fetch_aux: FetchAux | None = None,
) -> ReplicaFetchers:
    """The fetchers of this broker, which follow nothing yet.

    `fetch_aux` reads a log's state from the tier; None if there is no tier.
    """
    listener = listener_of_brokers(config.values)

    def address_of(broker_id: int) -> Address | None:
        broker = image().brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoints.get(listener)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    tools = FetcherTools(
        environment,
        supervisor,
        address_of,
        broker_epoch,
        fetch_aux,
        throttle=hooks.throttle,
        on_high_watermark=hooks.on_high_watermark,
        count_bytes=hooks.count_bytes,
    )
    fetching = replica_fetcher_config(config)._replace(security=node_security(config, listener))
    return ReplicaFetchers(fetching, tools)


def register_fetcher_metrics(
    metrics: Metrics, fetchers: ReplicaFetchers, throttles: Throttles
) -> None:
    """How far this broker is behind its leaders, and its throttled rates, under Kafka's names."""
    loop = asyncio.get_running_loop()
    for side, throttle in (("Leader", throttles.leader), ("Follower", throttles.follower)):
        rate = partial(_rate_now, throttle.quota, loop)
        metrics.gauge(f"kafka.server:type={side}Replication", rate, "byte-rate")
    metrics.gauge(f"{_MANAGER},name=MaxLag,clientId=Replica", lambda: fetchers.max_lag)
    metrics.gauge(
        f"{_MANAGER},name=FailedPartitionsCount,clientId=Replica", lambda: fetchers.failed_count
    )


def _rate_now(quota: ReplicationQuota, loop: asyncio.AbstractEventLoop) -> float:
    return quota.rate(loop.time())
