"""What every handler is handed: the broker's parts, and the request's circumstances."""

from dataclasses import dataclass
from typing import NamedTuple

from ..clients.environment import Environment
from ..clients.protocol.api import ApiKey
from ..replication.controller import Controller
from ..replication.replica_manager import ReplicaManager
from ..storage.log_manager import LogManager
from .config import BrokerConfig
from .coordinator.group import GroupCoordinator
from .fetch_session import FetchSessionCache
from .metrics import Metrics
from .topic_defaults import TopicDefaults


class RequestContext(NamedTuple):
    """Who asks, and in which version."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None
    client_host: str
    listener: str
    principal: str = "User:ANONYMOUS"


@dataclass(frozen=True, slots=True)
class BrokerContext:
    """The parts of one broker. Handlers read them and own none."""

    config: BrokerConfig
    environment: Environment
    controller: Controller
    replica_manager: ReplicaManager
    log_manager: LogManager
    group_coordinator: GroupCoordinator
    fetch_sessions: FetchSessionCache
    topic_defaults: TopicDefaults
    metrics: Metrics
