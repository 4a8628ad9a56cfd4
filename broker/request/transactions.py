"""The transaction coordinator, made when the first transactional producer needs it.

A broker that serves no transactions need not load their code. If `__transaction_state` exists from
a previous run, its transactions are loaded at startup: prepared ones are completed, and those that
time out are aborted. Otherwise the first request makes the coordinator.
"""

from typing import TYPE_CHECKING

from ...clients.environment import Environment
from ...clients.supervisor import Supervisor
from ...replication.controller.controller import Controller
from ...replication.leader.replica_manager import ReplicaManager
from ...replication.topic_names import TRANSACTION_STATE_TOPIC
from ...storage.manager.log_manager import LogManager
from ..config.config import BrokerConfig
from .groups import Groups

if TYPE_CHECKING:
    from ..coordinator.transaction.transaction_coordinator import TransactionCoordinator
    from ..coordinator.transaction.transaction_markers import LocalMarkers


class Transactions:
    """Holds the coordinator and the marker writer, or what is needed to make them."""

    def __init__(
        self,
        config: BrokerConfig,
        environment: Environment,
        controller: Controller,
        replica_manager: ReplicaManager,
        log_manager: LogManager,
        groups: Groups,
        supervisor: Supervisor,
    ) -> None:
        self._supervisor = supervisor
        self._config = config
        self._environment = environment
        self._controller = controller
        self._replica_manager = replica_manager
        self._log_manager = log_manager
        self._groups = groups
        self._coordinator: TransactionCoordinator | None = None
        self._markers: LocalMarkers | None = None

    def start(self) -> None:
        """Load the transactions of a previous run, if any."""
        if TRANSACTION_STATE_TOPIC in self._controller.image.topics_by_name:
            self._make()

    @property
    def coordinator(self) -> "TransactionCoordinator":
        """The coordinator, made at the first call. Call it inside the running loop."""
        return self._coordinator or self._make()

    @property
    def markers(self) -> "LocalMarkers":
        """Writes transaction markers to the partitions that this broker leads."""
        if self._markers is None:
            from ..coordinator.transaction.transaction_markers import LocalMarkers

            self._markers = LocalMarkers(
                self._replica_manager,
                lambda: self._groups.coordinator,
                self._environment.wall_clock_ms,
                self._config.values.integer("request.timeout.ms"),
            )
        return self._markers

    def _make(self) -> "TransactionCoordinator":
        from ..coordinator.replicated_offsets_log import ReplicatedOffsetsLog
        from ..coordinator.transaction.transaction_config import transaction_config
        from ..coordinator.transaction.transaction_coordinator import TransactionCoordinator

        config = transaction_config(self._config)
        log = ReplicatedOffsetsLog(
            TRANSACTION_STATE_TOPIC,
            config.request_timeout_ms,
            self._replica_manager,
            self._log_manager,
        )
        coordinator = TransactionCoordinator(
            config, self._environment, log, self.markers, self._supervisor
        )
        self._coordinator = coordinator
        coordinator.start()
        # The transaction version must be known before the log is read.
        self._controller.subscribe(coordinator.publish)
        self._replica_manager.listen(TRANSACTION_STATE_TOPIC, coordinator)
        return coordinator

    def stop(self) -> None:
        """Cancel the requests that wait in the coordinator."""
        if self._coordinator is not None:
            self._coordinator.stop()
