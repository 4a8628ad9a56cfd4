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
from ...replication.follower.replica_fetcher import FetcherTools
from ...replication.follower.replica_fetchers import ReplicaFetchers
from ...replication.follower.tier_reads import FetchAux
from ...replication.leader.isr_sender import IsrRequests, IsrSender
from ...replication.leader.replica_manager import PartitionsHere, ReplicaPeers
from ...replication.leader.replica_selection import RackAwareSelection
from ...replication.metadata.cluster_image import ClusterImage
from ...replication.replication_quota import ReplicationQuota
from ...replication.throttled_replicas import ThrottledReplicas
from ..config.config import BrokerConfig
from ..config.config_values import ConfigValues
from ..config.listeners import listener_of_brokers
from ..config.settings import (
    replica_fetcher_config,
    replica_manager_config,
    replication_rates,
)
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


class FollowingTools(NamedTuple):
    """What the replicas of a member need to follow those of others."""

    environment: Environment
    supervisor: Supervisor
    metrics: Metrics
    image: Callable[[], ClusterImage]
    broker_epoch: Callable[[], int]
    isr_requests: IsrRequests
    """Changes of ISRs, as requests to the active controller."""
    throttle: ThrottledReplicas
    """The quota of followers."""
    fetch_aux: FetchAux | None
    """Reads a log's state from the tier; None if there is no tier."""


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


def replica_selection(
    config: BrokerConfig, image: Callable[[], ClusterImage]
) -> RackAwareSelection | None:
    """What chooses replicas for consumers, if that is configured."""
    if not config.values.text("replica.selector.class").strip():
        return None
    return RackAwareSelection(lambda broker_id: image().brokers.get(broker_id))


def make_peers(config: BrokerConfig, tools: FollowingTools, here: PartitionsHere) -> ReplicaPeers:
    """The fetchers of this broker, which follow nothing yet, and the sender of its ISRs."""
    listener = listener_of_brokers(config.values)

    def address_of(broker_id: int) -> Address | None:
        broker = tools.image().brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoints.get(listener)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    fetcher_tools = FetcherTools(
        tools.environment,
        tools.supervisor,
        address_of,
        tools.broker_epoch,
        tools.fetch_aux,
        throttle=tools.throttle,
        on_high_watermark=here.on_high_watermark,
        count_bytes=tools.metrics.counter(_BYTES_IN).add,
    )
    fetching = replica_fetcher_config(config)._replace(security=node_security(config, listener))
    sender = IsrSender(
        tools.isr_requests,
        here.all,
        here.complete_replicated,
        tools.environment,
        tools.supervisor,
        replica_manager_config(config).replica_lag_time_max_ms,
    )
    return ReplicaPeers(ReplicaFetchers(fetching, fetcher_tools), sender)


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
