"""This process as one of several in its cluster: its quorum, its controller, its broker's life.

    join the quorum -> replay what is committed -> register the broker -> catch up -> load the logs
    -> ask to be unfenced -> accept clients

A process without the broker role ends after the second step. One without the controller role is an
observer of the quorum: its controller never leads, and keeps the image.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ..clients.errors import ErrorCode, KafkaError
from ..clients.kafka_uuid import Uuid
from ..clients.runtime.supervisor import Supervisor
from ..clients.runtime.task_owner import TaskOwner
from ..replication.control.brokers.broker_control import BrokerRegistration
from ..replication.control.brokers.registration import (
    BrokerRegistrationData,
    ControllerRegistrationData,
)
from ..replication.control.cluster_control import ClusterControl
from ..replication.control.controller import Controller
from ..replication.control.controller_loop import ControllerTools
from ..replication.metadata.cluster_image import Endpoint
from ..replication.metadata.metadata_quorum import NO_LEADER
from ..replication.metadata.metadata_records import SUPPORTED_FEATURES
from ..replication.metadata.open_quorum import open_quorum
from ..replication.metadata.quorum_member import QuorumMember
from ..replication.quorum.quorum_channel import QuorumChannel
from ..replication.raft.voter_set import NO_VOTERS
from .cluster.broker_lifecycle import BrokerLifecycle
from .cluster.controller_channel import ControllerChannel
from .cluster.controller_registration import ControllerRegistration
from .cluster.controller_requests import DirectoryRequests, ProducerIdBlocks
from .cluster.isr_requests import AlterPartitionRequests
from .cluster.lifecycle_config import lifecycle_config
from .cluster.quorum_watch import QuorumWatch, absence
from .config.config import BrokerConfig
from .config.config_values import ConfigValues
from .config.dynamic_config import DynamicConfig
from .config.listeners import Listeners
from .config.settings import cluster_control_config, controller_config, raft_options, voter_set
from .config.tls_listeners import node_security
from .metrics.metrics import Metrics
from .node_storage import NodeStorage
from .request.context import Member, NodeContext

if TYPE_CHECKING:
    from ..replication.authorizer.standard_authorizer import StandardAuthorizer

_log = logging.getLogger(__name__)

_CONTROLLED_SHUTDOWN_MS = 10_000
"""How long a stop waits for the active controller; `tierlog serve` gives a stop 20 seconds."""
_OTHERS_LEAVE_S = 3.0
"""How long an active controller that stops waits for brokers that stop at the same time."""


class MemberTools(NamedTuple):
    """What the process gives its member."""

    executor: Executor
    """It syncs the metadata log."""
    supervisor: Supervisor
    dynamic_config: DynamicConfig
    metrics: Metrics
    authorizer: "StandardAuthorizer | None"
    """What decides about requests; None if everything is allowed."""
    on_fatal: Callable[[str], None]
    """Called with the reason when this process cannot go on."""


class ClusterMember:
    """See the top of this file."""

    def __init__(
        self, config: BrokerConfig, listeners: Listeners, storage: NodeStorage, tools: MemberTools
    ) -> None:
        """Read the voters from the disk. Raises OSError."""
        executor, supervisor, dynamic_config, metrics, authorizer, on_fatal = tools
        self._config = config
        self._storage = storage
        environment = self._environment = storage.environment
        self._supervisor = supervisor
        self._dynamic_config = dynamic_config
        self._authorizer = authorizer
        self._lifecycle: BrokerLifecycle | None = None
        self._registration: ControllerRegistration | None = None
        self._has_failed = asyncio.Event()
        self._failure = ""
        self._on_fatal = on_fatal
        # All controllers are reached at the first of their listeners' names.
        first = next(iter(config.quorum.controller_listeners), "")
        self._security = node_security(config, first)
        self.quorum = self._open_quorum(listeners, executor)
        self._watch = QuorumWatch(self.quorum)
        log_config = dynamic_config.topic_defaults.log_config()
        settings = controller_config(config, log_config, storage.max_open)
        if config.quorum.is_controller:
            settings = replace(settings, bootstrap=storage.bootstrap())
        self.controller = Controller(
            settings,
            storage.cluster_id,
            environment,
            storage.metadata_log,
            ControllerTools(executor, supervisor, self._fail),
            self.quorum,
        )
        self._control: ClusterControl | None = None
        if config.quorum.is_controller:
            control = cluster_control_config(config.values)
            self._control = ClusterControl(
                self.controller, control, environment, supervisor, self._ended_since
            )
        self._channel = self._open_channel("forwarding")
        self._channels = [self._channel]
        own_id = config.node_id
        self.producer_ids = ProducerIdBlocks(self._channel, own_id, lambda: self.broker_epoch)
        self.directory_requests = DirectoryRequests(
            self._channel, own_id, lambda: self.broker_epoch, self._report_offline
        )
        self.context = Member(self.quorum, self._control, self._channel)
        self.node_context = NodeContext(
            config=config,
            listeners=listeners,
            environment=environment,
            controller=self.controller,
            topic_defaults=dynamic_config.topic_defaults,
            dynamic_config=dynamic_config,
            metrics=metrics,
            member=self.context,
            authorizer=authorizer,
        )

    def _open_quorum(self, listeners: Listeners, executor: Executor) -> QuorumMember:
        config, storage = self._config, self._storage
        options = raft_options(
            config,
            storage.directory_ids[0],
            cluster_id=storage.cluster_id,
            listeners=listeners,
        )
        voters = voter_set(config) if config.quorum.voters else NO_VOTERS
        opened = open_quorum(options, storage.metadata_log, self._environment, voters)
        channel = self._quorum_channel = QuorumChannel(
            config.node_id,
            self._environment,
            request_timeout_ms=options.request_timeout_ms,
            fetch_max_bytes=config.values.integer("controller.quorum.fetch.max.bytes"),
            security=self._security,
        )
        return QuorumMember(config.node_id, opened.core, opened.storage, channel, executor)

    def _ended_since(self, node_id: int) -> float | None:
        """Since when another controller's process has ended, in ms; None if it has not."""
        for voter in self.quorum.quorum.voters:
            if voter.key.id == node_id != self._config.node_id:
                # Only one of its addresses is ever used.
                for address in voter.endpoints.values():
                    since = self._quorum_channel.ended_since(address)
                    if since is not None:
                        return 1_000 * since
        return None

    def _open_channel(
        self, purpose: str, *, keeps_late_connections: bool = False
    ) -> ControllerChannel:
        return ControllerChannel(
            self.quorum,
            self._environment,
            client_id=f"{purpose}-{self._config.node_id}",
            request_timeout_ms=self._config.values.integer("controller.socket.timeout.ms"),
            security=self._security,
            keeps_late_connections=keeps_late_connections,
        )

    @property
    def broker_epoch(self) -> int:
        """The epoch of the broker's registration; -1 if there is none."""
        return -1 if self._lifecycle is None else self._lifecycle.broker_epoch

    @property
    def obstacle(self) -> str:
        """Why this process is not ready to serve, or "" if it is."""
        lifecycle = self._lifecycle
        if lifecycle is None or not lifecycle.unfenced.is_set():
            if self.quorum.leader_id < 0:
                return absence(self.quorum)
            if lifecycle is None:
                return ""
            return (
                "This broker is not registered."
                if lifecycle.broker_epoch < 0
                else "This broker is fenced."
            )
        if lifecycle.is_cut_off:
            return (
                "The active controller does not answer this broker: it serves the partitions that "
                "it leads, and learns of no changes."
            )
        return ""

    def _fail(self, message: str) -> None:
        self._failure = message
        self._has_failed.set()
        self._on_fatal(message)

    async def start(self) -> None:
        """Take part in the quorum. The image follows what is committed from here on."""
        if self._authorizer is not None:
            from .cluster.acl_following import follow_acls, load_as_leader

            follow_acls(self.controller, self._authorizer)
            if self._control is not None:
                load_as_leader(self.controller, self.quorum, self._authorizer)
        self.controller.subscribe(self._dynamic_config.publish)
        self._dynamic_config.subscribe(self._use_topic_defaults)
        self._watch.start()
        await self.controller.join()
        if self._control is not None:
            self._control.start()
            self._registration = self._register_controller()

    def _register_controller(self) -> ControllerRegistration:
        """Make this controller known to administrators (KIP-919)."""
        registration = ControllerRegistration(
            ControllerRegistrationData(
                self._config.node_id,
                self._storage.environment.random_uuid(),
                [
                    Endpoint(
                        controller.name,
                        controller.host,
                        controller.port,
                        self._config.protocol_code(controller.name),
                    )
                    for controller in self.node_context.listeners.advertised_controllers
                ],
                SUPPORTED_FEATURES,
            ),
            self._open_channel("controller-registration"),
            self.quorum,
            self._storage.environment,
            self._supervisor,
            None if self._authorizer is None else self._authorizer.complete_load,
        )
        self.controller.subscribe(registration.publish)
        registration.start()
        return registration

    def _use_topic_defaults(self, _values: ConfigValues) -> None:
        self.controller.use_topic_defaults(self._dynamic_config.topic_defaults.log_config())

    async def register(self, registration: BrokerRegistration) -> None:
        """Register the broker, and wait until the image has caught up with its registration.

        Raises KafkaError if that fails for good.
        """
        lifecycle = self._lifecycle = BrokerLifecycle(
            BrokerRegistrationData(
                registration.broker_id,
                self._storage.cluster_id,
                registration.incarnation_id,
                registration.endpoints,
                SUPPORTED_FEATURES,
                registration.directories,
                registration.rack,
                previous_broker_epoch=self._storage.previous_broker_epoch,
            ),
            lifecycle_config(self._config.values),
            self._open_channel("heartbeat", keeps_late_connections=True),
            lambda: self.controller.image.offset,
            self._supervisor,
            self._fail,
        )
        lifecycle.start()
        await self._until(lifecycle.caught_up)
        if self._authorizer is not None:
            self._authorizer.complete_load()

    def _report_offline(self, directories: Collection[Uuid]) -> None:
        assert self._lifecycle is not None, "a broker has replicas, and reports on them"
        self._lifecycle.report_offline(directories)

    def isr_requests(self) -> AlterPartitionRequests:
        """A channel for changes of ISRs, which wait for nothing else. `stop` closes it."""
        channel = self._open_channel("alter-partition")
        self._channels.append(channel)
        return AlterPartitionRequests(channel, self._config.node_id, lambda: self.broker_epoch)

    async def become_unfenced(self) -> None:
        """Ask to be unfenced, and wait for it. Raises KafkaError if that fails for good."""
        lifecycle = self._lifecycle
        assert lifecycle is not None, "only a broker is unfenced"
        lifecycle.ready_to_unfence()
        await self._until(lifecycle.unfenced)

    async def _until(self, event: asyncio.Event) -> None:
        """Wait for an event of the broker's life. Raises KafkaError if this process has failed."""
        waits = TaskOwner(2)
        events = [waits.start(each.wait(), "cluster") for each in (event, self._has_failed)]
        try:
            await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await waits.stop()
        if not event.is_set():
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, self._failure)

    async def leave(self) -> None:
        """Hand the broker's leaderships over, while its clients are still served."""
        lifecycle = self._lifecycle
        if lifecycle is None:
            return
        watches = TaskOwner(2)
        for watch in (self._end_without_majority, self._end_without_own_controller):
            watches.start(watch(lifecycle), "controlled shutdown")
        try:
            await lifecycle.controlled_shutdown(_CONTROLLED_SHUTDOWN_MS)
        finally:
            await watches.stop()
        if self._control is not None:
            await self._control.until_others_left(_OTHERS_LEAVE_S)

    async def _end_without_majority(self, lifecycle: BrokerLifecycle) -> None:
        from .cluster.lost_majority import until_majority_is_gone

        await until_majority_is_gone(
            self._config.node_id,
            lambda: self.quorum.quorum.voters,
            self._quorum_channel.failed_since,
            self._quorum_channel.refuses,
        )
        lifecycle.abandon_shutdown("A majority of the controllers has stopped")

    async def _end_without_own_controller(self, lifecycle: BrokerLifecycle) -> None:
        """A node that led the quorum and has failed would not learn of the next leader."""
        await self.quorum.quorum.until_stopped()
        if self.quorum.leader_id in (self._config.node_id, NO_LEADER):
            lifecycle.abandon_shutdown("The active controller was in this process and has failed")

    async def stop(self) -> None:
        """Leave the cluster, and close the metadata log."""
        if self._lifecycle is not None:
            await self._lifecycle.stop()
        if self._registration is not None:
            await self._registration.stop()
        for channel in self._channels:
            await channel.close()
        await self._watch.stop()
        if self._control is not None:
            await self._control.stop()
        await self.controller.stop()
