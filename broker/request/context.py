"""The arguments of every handler: the broker's parts and the request's context."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from ...clients.protocol.api import ListenerKind
from ...clients.protocol.schema import Message
from ...clients.runtime.environment import Environment
from ...coordinator.transaction.producer_ids import ProducerIds
from ...replication.control.controller import Controller
from ...replication.control.controller_config import PartitionCharge, no_charge
from ...replication.leader.replica_manager import ReplicaManager
from ...storage.manager.log_manager import LogManager
from ..config.config import BrokerConfig
from ..config.dynamic_config import DynamicConfig
from ..config.listeners import Listeners
from ..config.topic_defaults import TopicDefaults
from ..coordinators.groups import Groups
from ..coordinators.transactions import Transactions
from ..metrics.metrics import Counter, Metrics
from .described_topics import DescribedTopics
from .fetch_session import FetchSessionCache
from .large_requests import LargeRequests

if TYPE_CHECKING:
    from ...coordinator.group.group_coordinator import GroupCoordinator
    from ...coordinator.transaction.transaction_coordinator import TransactionCoordinator
    from ...replication.authorizer.authorizer import Authorizer
    from ...replication.control.brokers.death_hint import HeartbeatConnection
    from ...replication.control.cluster_control import ClusterControl
    from ...replication.metadata.quorum_member import QuorumMember
    from ..cluster.controller_channel import ControllerChannel
    from ..metrics.telemetry import Telemetry

T = TypeVar("T")


class NoAnswer(Exception):
    """Raised by a handler whose request failed and gets no response, like Produce with acks=0.

    The connection is closed, so that the client notices.
    """


class Deferred(NamedTuple, Generic[T]):
    """A response that `then` makes from the result of `work`. A future as `work` needs no task."""

    work: asyncio.Future[T] | Coroutine[object, object, T]
    then: Callable[[T], Message | None]


class ForwardedCharge(Protocol):
    """Charges the client of a forwarded request."""

    def charge(self, partitions: int) -> None:
        """Count changed partitions. Raises KafkaError(THROTTLING_QUOTA_EXCEEDED)."""
        ...

    def wait_s(self, now: float) -> float:
        """How long to throttle the client."""
        ...


class RequestContext(NamedTuple):
    """A request's client and version, and the function that charges the partitions it changes."""

    api_key: int
    api_version: int
    client_id: str | None
    client_host: str
    listener: str
    principal: str = "User:ANONYMOUS"
    listener_kind: ListenerKind = ListenerKind.BROKER
    charge_partitions: PartitionCharge = no_charge
    charge_forwarded: "Callable[[RequestContext], ForwardedCharge | None] | None" = None
    """The charge of a forwarded request; None while no client has a quota."""
    connection: "HeartbeatConnection | None" = None
    """The connection from which a controller gets the request."""


class Node(NamedTuple):
    """A broker's address on one listener."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Member(NamedTuple):
    """What a process has as one of several in its cluster."""

    quorum: "QuorumMember"
    cluster_control: "ClusterControl | None"
    """None in a process without the controller role."""
    channel: "ControllerChannel"
    """To the active controller, wherever it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """The parts of one process that controllers and brokers have. Handlers own none of them."""

    config: BrokerConfig
    listeners: Listeners
    environment: Environment
    controller: Controller
    topic_defaults: TopicDefaults
    dynamic_config: DynamicConfig
    metrics: Metrics
    member: Member | None = None
    """None if this process is the whole cluster."""
    authorizer: "Authorizer | None" = None
    """Decides who may do what (`security/access.py`); None: everybody may do everything."""
    large_requests: LargeRequests = field(default_factory=LargeRequests)
    follower_requests: LargeRequests = field(default_factory=LargeRequests)
    """Large ones of followers, which never wait for clients: `acks=all` depends on them."""
    described_topics: DescribedTopics = field(default_factory=DescribedTopics)

    @property
    def kraft_version(self) -> int | None:
        """The level of the quorum's own feature; None if this process is the whole cluster."""
        return None if self.member is None else self.member.quorum.quorum.kraft_version

    @property
    def identifies_clients(self) -> bool:
        """Whether it knows who its clients are; without that, an audit says nothing."""
        return self.authorizer is not None or bool(self.config.tls) or bool(self.config.sasl)


class ClientTelemetry:
    """Holds `Telemetry` (KIP-714), or nothing while no client pushes metrics."""

    __slots__ = ("_telemetry",)

    def __init__(self) -> None:
        self._telemetry: Telemetry | None = None

    @property
    def telemetry(self) -> "Telemetry":
        """The state of client telemetry, made at the first call."""
        if self._telemetry is None:
            from ..metrics.telemetry import Telemetry

            self._telemetry = Telemetry()
        return self._telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerContext(NodeContext):
    """The parts of one broker. Handlers use these parts, but own none of them."""

    replica_manager: ReplicaManager
    log_manager: LogManager
    groups: Groups
    transactions: Transactions
    producer_ids: ProducerIds
    fetch_sessions: FetchSessionCache
    bytes_in: Counter
    bytes_out: Counter
    """Bytes of records sent to consumers."""
    replication_bytes_out: Counter
    """Bytes of records sent to followers."""
    fetch_max_bytes: int
    client_telemetry: ClientTelemetry = field(default_factory=ClientTelemetry)

    @property
    def group_coordinator(self) -> "GroupCoordinator":
        """The group coordinator of this broker, made at the first use."""
        return self.groups.coordinator

    @property
    def transaction_coordinator(self) -> "TransactionCoordinator":
        """The transaction coordinator of this broker, made at the first use."""
        return self.transactions.coordinator

    @property
    def telemetry(self) -> "Telemetry":
        """The state of clients that push metrics, made at the first use."""
        return self.client_telemetry.telemetry

    def nodes(self, broker_ids: Iterable[int], listener: str) -> list[Node]:
        """The addresses of these brokers on a listener; those without one are left out."""
        nodes: list[Node] = []
        for broker_id in sorted(broker_ids):
            broker = self.controller.image.brokers.get(broker_id)
            endpoint = None if broker is None else broker.endpoints.get(listener)
            if broker is not None and endpoint is not None:
                nodes.append(Node(broker_id, endpoint.host, endpoint.port, broker.rack))
        return nodes
