"""Wires the fetchers of a member: its settings, the addresses of leaders, its metrics."""

from collections.abc import Callable

from ...clients.environment import Environment
from ...clients.network.network import Address
from ...clients.supervisor import Supervisor
from ...replication.follower.replica_fetcher import FetcherTools
from ...replication.follower.replica_fetchers import ReplicaFetchers
from ...replication.follower.tier_reads import FetchAux
from ...replication.metadata.cluster_image import ClusterImage
from ..config.config import BrokerConfig
from ..config.listeners import listener_of_brokers
from ..config.settings import replica_fetcher_config
from ..metrics.metrics import Metrics

_MANAGER = "kafka.server:type=ReplicaFetcherManager"


def make_replica_fetchers(
    config: BrokerConfig,
    environment: Environment,
    supervisor: Supervisor,
    image: Callable[[], ClusterImage],
    broker_epoch: Callable[[], int],
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

    tools = FetcherTools(environment, supervisor, address_of, broker_epoch, fetch_aux)
    return ReplicaFetchers(replica_fetcher_config(config), tools)


def register_fetcher_metrics(metrics: Metrics, fetchers: ReplicaFetchers) -> None:
    """How far this broker is behind its leaders, under Kafka's names."""
    metrics.gauge(f"{_MANAGER},name=MaxLag,clientId=Replica", lambda: fetchers.max_lag)
    metrics.gauge(
        f"{_MANAGER},name=FailedPartitionsCount,clientId=Replica", lambda: fetchers.failed_count
    )
