"""The transaction coordinator, made when the first transactional producer needs it.

A broker that serves no transactions need not load their code. If `__transaction_state` exists from
a previous run, its transactions are loaded at startup: prepared ones are completed, and those that
time out are aborted. Otherwise the first request makes the coordinator, or, where another broker
may have created that topic, the first image that has it.
"""

import asyncio
from typing import TYPE_CHECKING

from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...replication.control.controller import Controller
from ...replication.leader.replica_manager import ReplicaManager
from ...replication.metadata.cluster_image import ClusterDelta, ClusterImage
from ...replication.topic_names import TRANSACTION_STATE_TOPIC
from ..config.config import BrokerConfig
from .groups import Groups

if TYPE_CHECKING:
    from ...coordinator.transaction.producer_ids import ProducerIds
    from ...coordinator.transaction.transaction_coordinator import TransactionCoordinator
    from ...coordinator.transaction.transaction_links import TransactionLinks
    from ...coordinator.transaction.transaction_markers import LocalMarkers


class Transactions:
    """Holds the coordinator and the marker writer, or what is needed to make them."""

    def __init__(
        self,
        config: BrokerConfig,
        environment: Environment,
        controller: Controller,
        replica_manager: ReplicaManager,
        groups: Groups,
        producer_ids: "ProducerIds",
        supervisor: Supervisor,
    ) -> None:
        self._supervisor = supervisor
        self._config = config
        self._environment = environment
        self._controller = controller
        self._replica_manager = replica_manager
        self._groups = groups
        self._producer_ids = producer_ids
        self._coordinator: TransactionCoordinator | None = None
        self._markers: LocalMarkers | None = None
        self._links: TransactionLinks | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Load the transactions of a previous run, if any."""
        if TRANSACTION_STATE_TOPIC in self._controller.image.topics_by_name:
            self._make()
        elif self._config.is_member:
            self._controller.subscribe(self._publish)

    def _publish(self, image: ClusterImage, _: ClusterDelta) -> None:
        if self._coordinator is None and TRANSACTION_STATE_TOPIC in image.topics_by_name:
            # Not in the middle of a publication: the coordinator subscribes, too.
            asyncio.get_running_loop().call_soon(self._make_if_missing)

    def _make_if_missing(self) -> None:
        if self._coordinator is None and not self._is_stopped:
            self._make()

    @property
    def links(self) -> "TransactionLinks | None":
        """The connections to other brokers; None if this process is the whole cluster."""
        if self._links is None and self._config.is_member:
            from ...coordinator.transaction.transaction_links import TransactionLinks
            from .coordinator_configs import link_config

            self._links = TransactionLinks(
                link_config(self._config),
                self._environment,
                self._controller,
                self.markers,
                self._supervisor,
            )
        return self._links

    def coordinator_elsewhere(self, transactional_id: str) -> int | None:
        """The broker that coordinates an id, -1 if there is none; None if it is this one."""
        if not self._config.is_member:
            return None
        image = self._controller.image
        number = self.coordinator.partition_of(transactional_id)
        partition = image.partition(TRANSACTION_STATE_TOPIC, number)
        leader = -1 if partition is None else partition.leader
        return None if leader == self._config.node_id else leader

    @property
    def coordinator(self) -> "TransactionCoordinator":
        """The coordinator, made at the first call. Call it inside the running loop."""
        return self._coordinator or self._make()

    @property
    def markers(self) -> "LocalMarkers":
        """Writes transaction markers to the partitions that this broker leads."""
        if self._markers is None:
            from ...coordinator.transaction.transaction_markers import LocalMarkers

            self._markers = LocalMarkers(
                self._replica_manager,
                lambda: self._groups.coordinator,
                self._environment.wall_clock_ms,
                self._config.values.integer("request.timeout.ms"),
            )
        return self._markers

    def _make(self) -> "TransactionCoordinator":
        from ...coordinator.transaction.transaction_coordinator import TransactionCoordinator
        from .coordinator_configs import transaction_config

        config = transaction_config(self._config)
        timeout_ms = config.request_timeout_ms
        log = self._groups.log_of(TRANSACTION_STATE_TOPIC, timeout_ms, checks_min_isr=True)
        links = self.links
        markers = self.markers if links is None else links.markers
        coordinator = TransactionCoordinator(
            config,
            self._environment,
            log,
            markers,
            self._supervisor,
            take_producer_id=self._producer_ids.next_if_there,
        )
        self._coordinator = coordinator
        coordinator.start()
        # The transaction version must be known before the log is read.
        self._controller.subscribe(coordinator.publish)
        self._replica_manager.listen(TRANSACTION_STATE_TOPIC, coordinator)
        return coordinator

    async def stop(self) -> None:
        """Cancel the requests that wait in the coordinator, and leave the other brokers."""
        self._is_stopped = True
        if self._coordinator is not None:
            self._coordinator.stop()
        if self._links is not None:
            await self._links.stop()
