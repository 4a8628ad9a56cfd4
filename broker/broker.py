"""One process, a broker, a controller or both: its parts, in the order in which they start.

    addresses bound (no client accepted yet)      a port in use is found before anything is touched
    log directories locked                        a second process on the same data is found here
    metadata log replayed, broker registered      from here on, the cluster image has every topic
    logs loaded, recovered after a crash
    image published: partitions led, groups loaded
    clients accepted                              by a member of a cluster once it is unfenced
    remote log manager started                    it is a client of this very broker

A member of a cluster of several processes joins the quorum where the metadata log is replayed, and
catches up with its registration before its logs are loaded (`cluster_member.py`).

They stop in reverse order, within a time limit: no new clients, waiting requests are answered, logs
are flushed and closed, and the clean shutdown marker is written last.

`dependencies.py` has the clock, disk, network and threads that the broker uses: a simulation passes
its own.
"""

import logging
from asyncio import get_running_loop, sleep, to_thread
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from ..clients.errors import KafkaError
from ..clients.runtime.supervisor import Supervisor
from ..coordinator.transaction.producer_ids import ProducerIds
from ..replication.control.brokers.broker_control import BrokerRegistration
from ..replication.control.controller import Controller
from ..replication.control.controller_loop import ControllerTools
from ..replication.housekeeping.housekeeping import Housekeeping
from ..replication.housekeeping.log_compaction import LogCompaction
from ..replication.leader.replica_directories import (
    ControllerReports,
    MoveTools,
    ReplicaDirectories,
)
from ..replication.leader.replica_manager import ReplicaManager, ReplicaParts
from ..replication.metadata.announcements import Announcements
from ..replication.metadata.cluster_image import Endpoint as RegisteredEndpoint
from ..replication.metadata.snapshot_generator import SnapshotGenerator
from ..storage.config import LogConfig
from ..storage.directory.log_dir import LogDir, LogDirError
from ..storage.manager.log_manager import LogManager
from .config.authorizer_config import configured_authorizer
from .config.config import STATUS_PORT, BrokerConfig
from .config.config_values import ConfigValues
from .config.dynamic_config import DynamicConfig
from .config.listeners import with_bound_ports
from .config.remedies import listening_message, storage_message, with_remedy
from .config.settings import (
    connection_limits,
    controller_config,
    housekeeping_config,
    metadata_log_config,
    move_rate,
    remote_log_manager_config,
    replica_manager_config,
    socket_options,
)
from .config.tls_listeners import TlsListeners, tls_listeners
from .config.topic_defaults import TopicDefaults
from .coordinators.groups import Groups
from .coordinators.transactions import Transactions
from .dependencies import Dependencies
from .dispatch.apis import Apis
from .dispatch.quota_switch import follow_quotas
from .dispatch.sasl_listeners import TokenKeys, sasl_listeners, token_keys
from .metrics.metrics import Metrics, failures_of_loops
from .metrics.tier_metrics import forget_deleted_topics, register_purgatories, register_tier_metrics
from .network.socket_listener import SocketNetwork
from .network.socket_server import SocketServer
from .network.transport import Network
from .node_storage import NodeStorage, configure_logs
from .request.context import BrokerContext
from .request.fetch_session import FetchSessionCache
from .tier.tiered_topics import (
    check_tier_is_there,
    check_tier_places,
    has_mounts,
    mounted_topics,
)

if TYPE_CHECKING:
    from ..replication.metadata.cluster_image import ClusterImage
    from ..tiering.remote_log_manager import RemoteLogManager
    from .cluster.replica_following import Throttles
    from .cluster_member import ClusterMember
    from .network.sasl_gate import SaslListener
    from .status.status_site import StatusSite
    from .tier.broker_tier import BrokerTier

_log = logging.getLogger(__name__)

_TOPIC_METRICS = "kafka.server:type=BrokerTopicMetrics"
_SNAPSHOT_METRICS = "kafka.server:type=SnapshotEmitter"


class StartError(Exception):
    """The broker cannot start until a person acts; the message says why."""


class Broker:
    """A broker, a controller, or both."""

    def __init__(self, config: BrokerConfig, dependencies: Dependencies | None = None) -> None:
        self.config = config
        self.listeners = config.listeners
        self.metrics = Metrics()
        self.metrics_port = -1
        """The port that serves the metrics; -1 if none does."""
        self.status_url = ""
        """Where the status page is; empty if it is not served."""
        self.site: StatusSite | None = None
        """What is served over HTTP; None if nothing is."""
        self._dependencies = dependencies or Dependencies()
        self._authorizer = self._dependencies.authorizer() or configured_authorizer(config.values)
        self._supervisor = Supervisor(self._dependencies.environment.random)
        self.metrics.family(lambda: failures_of_loops(self._supervisor))
        # Stops what was started, in reverse order.
        self._started = AsyncExitStack()
        # Those of clients, of both kinds, each closed by a call that does not wait.
        self._disconnects: list[Callable[[], None]] = []
        self._tier: BrokerTier | None = None
        self._member: ClusterMember | None = None
        self._tls: TlsListeners | None = None
        self._token_keys: TokenKeys = {}
        self._sasl: Mapping[str, SaslListener] | None = None
        self._is_started = False
        self.context: BrokerContext | None = None
        """The broker's parts, once it has started; None in a process that is no broker."""
        self.compaction: LogCompaction | None = None
        self.on_fatal: Callable[[str], None] = _log.critical
        """Called, with the reason, when the broker cannot go on and should be stopped."""

    async def start(self) -> None:
        """Start the broker; if that fails, undo what was started. Raises StartError."""
        try:
            await self._start()
            self._is_started = True
        except (LogDirError, KafkaError) as error:
            await self._started.aclose()
            message = error.message if isinstance(error, KafkaError) else str(error)
            raise StartError(with_remedy(message)) from error
        except OSError as error:
            # A full or failing disk is not a bug: a person must fix it.
            await self._started.aclose()
            raise StartError(storage_message(error)) from error
        except BaseException:
            await self._started.aclose()
            raise

    async def stop(self) -> None:
        """Stop cleanly: the next start has nothing to recover."""
        self._is_started = False
        await self._started.aclose()

    def cut_off(self) -> None:
        """Close all connections at once, as the end of the process does; `stop` is still due.

        Nothing that this broker does from now on is acknowledged.
        """
        for disconnect in self._disconnects:
            disconnect()

    def _give_up(self, message: str) -> None:
        """Say that the broker cannot go on: `on_fatal` may be set after its parts are made."""
        self.on_fatal(message)

    @property
    def remote_log_manager(self) -> "RemoteLogManager | None":
        """What tiers the logs of this broker; None if no tier is set."""
        return None if self._tier is None else self._tier.remote

    async def _start(self) -> None:
        check_tier_places(self.config, self._dependencies.files)
        self._token_keys = await token_keys(self.config, self._started, self._supervisor)
        network = self._dependencies.network or SocketNetwork(socket_options(self.config.values))
        server = SocketServer(
            network,
            connection_limits(self.config.values),
            self.metrics,
        )
        self._started.push_async_callback(server.stop)
        self._disconnects.append(server.disconnect)
        await self._bind(server)
        await self._serve_status(network)
        context = self.context = await self._build(server)
        if context is None:
            return
        # Pushed again, to disconnect clients before anything that serves them stops.
        self._started.push_async_callback(server.stop)
        await context.replica_manager.until_settled()
        if self._member is not None:
            self._started.push_async_callback(self._member.leave)
            await self._member.become_unfenced()
        apis = Apis(context)
        answer = self._dependencies.around_answers(context, apis.answer)
        server.open(answer, self._logins(context.controller))
        follow_quotas(context, apis, server.rates)
        if self._tier is not None:
            await self._tier.start(self._started)
        if self.site is not None:
            self._show_status(self.site, context)

    def _logins(self, controller: Controller) -> "Mapping[str, SaslListener]":
        """How the clients of listeners with SASL log in."""
        if self._sasl is None:
            around = (self._dependencies.environment, self.metrics, self._token_keys)
            self._sasl = sasl_listeners(self.config, lambda: controller.image, *around)
        return self._sasl

    async def _bind(self, server: SocketServer) -> None:
        self._tls = tls_listeners(self.config)
        try:
            bound = (*self.listeners.controllers, *self.listeners.bound)
            ports = await server.bind(bound, self._tls.acceptors if self._tls else None)
        except OSError as error:
            bound = (*self.listeners.bound, *self.listeners.controllers)
            addresses = ", ".join(endpoint.address for endpoint in bound)
            from .status.neighbours_page import neighbours_page

            page = await neighbours_page(error, bound)
            raise StartError(listening_message(addresses, error, page)) from error
        self.listeners = with_bound_ports(self.config.listeners, ports)

    async def _serve_status(self, network: Network) -> None:
        """Serve metrics and status over HTTP if the configuration has ports for them."""
        values = self.config.values
        if max(values.integer("tierlog.metrics.port"), values.integer(STATUS_PORT)) < 0:
            return
        from .status.status_endpoints import StatusEndpoints
        from .status.status_site import StatusSite

        self.site = StatusSite(self.metrics, self._obstacle, lambda: self.remote_log_manager)
        endpoints = StatusEndpoints(self.config, network, self.site)
        self._started.callback(endpoints.stop)
        self._disconnects.append(endpoints.stop)
        self.metrics_port = await endpoints.serve_metrics()
        self.status_url = await endpoints.serve_status()

    def _show_status(self, site: "StatusSite", context: BrokerContext) -> None:
        from .status.sources import StatusSources

        self._started.push_async_callback(site.stop)
        site.serve(StatusSources(context, self.remote_log_manager))

    def _obstacle(self) -> str:
        """Why this process is not ready, or "" if it is."""
        obstacle = "" if self._member is None else self._member.obstacle
        return obstacle or ("" if self._is_started else "This node is starting.")

    def _register_metrics(
        self, replica_manager: ReplicaManager, log_manager: LogManager, controller: Controller
    ) -> None:
        register_purgatories(
            self.metrics, replica_manager.purgatories, replica_manager.expired_offset_searches
        )
        remote = self.remote_log_manager
        if remote is not None:
            register_tier_metrics(self.metrics, remote, log_manager.get_log)
            controller.subscribe(partial(forget_deleted_topics, remote.statistics))

    async def _build(self, server: SocketServer) -> BrokerContext | None:
        """Start the controller, and a broker's parts; None in a process that is no broker."""
        config, environment = self.config, self._dependencies.environment
        topic_defaults = TopicDefaults(config.values)
        log_config = topic_defaults.log_config()
        storage = NodeStorage(config, environment, self._dependencies.files, log_config)
        if config.is_member:
            # This code takes longer to load than a turn of the event loop may last.
            await to_thread(import_module, ".cluster_member", __package__)
        # No await from here until somebody unlocks the directories at a stop.
        storage.open()
        log_manager = storage.log_manager
        log_manager.directories.on_failure(partial(self._log_dir_failed, log_manager))
        flusher = ThreadPoolExecutor(1, thread_name_prefix="flush")
        self._started.callback(flusher.shutdown)
        dynamic_config = DynamicConfig(
            config.values, config.node_id, topic_defaults, self._supervisor, self._tls
        )
        if config.is_member:
            controller = await self._join_cluster(server, storage, dynamic_config)
            if not config.quorum.is_broker:
                return None
            # Recovery may take long, and the quorum must not wait for it.
            await to_thread(self._load, storage, controller.image)
        else:
            controller = self._start_controller(storage, log_config, flusher)
            if self.site is None:
                storage.load(controller.image)
            else:
                # A health check must not wait for a recovery.
                loading = partial(storage.load, controller.image)
                await get_running_loop().run_in_executor(flusher, loading)
        compaction = self._keep_house(storage, controller, flusher)
        mounted = mounted_topics(self._dependencies.files, config.log_dirs[0])
        check_tier_is_there(controller.image, config.is_tiered, mounted)
        return await self._build_broker(server, storage, controller, dynamic_config, compaction)

    def _load(self, storage: NodeStorage, image: "ClusterImage") -> None:
        """Load the logs, and the code that a broker of a cluster needs next."""
        import_module(".cluster.replica_following", __package__)
        if self.config.is_tiered:
            import_module(".tier.broker_tier", __package__)
        storage.load(image)

    async def _build_broker(
        self,
        server: SocketServer,
        storage: NodeStorage,
        controller: Controller,
        dynamic_config: DynamicConfig,
        compaction: LogCompaction,
    ) -> BrokerContext:
        config, environment = self.config, self._dependencies.environment
        log_manager, topic_defaults = storage.log_manager, dynamic_config.topic_defaults
        tier = self._tier = self._make_tier(log_manager, controller)
        throttles = None if self._member is None else self._throttles()
        replica_manager = ReplicaManager(
            replica_manager_config(config),
            environment,
            log_manager,
            lambda: controller.image,
            self._replica_parts(tier, controller, throttles),
            self._supervisor,
        )
        self._started.push_async_callback(replica_manager.stop)
        log_manager.directories.on_failure(replica_manager.on_log_dir_failure)
        if throttles is not None:
            self._follow_leaders(replica_manager, throttles, dynamic_config, log_manager)
        else:
            controller.subscribe(dynamic_config.publish)
            self._follow_acls(controller)

        configure_logs(dynamic_config, controller, log_manager, compaction)
        self._subscribe_to_config(dynamic_config, replica_manager, server)
        # In a turn of its own: with thousands of partitions it is a long one.
        await sleep(0)
        # Subscribed after the dynamic configuration: new logs use the topic defaults it updates.
        controller.subscribe(replica_manager.publish)
        controller.subscribe(Announcements(config.node_id, log_manager.get_log).publish)
        await sleep(0)
        self._register_metrics(replica_manager, log_manager, controller)
        if self._member is None:
            self._start_snapshots(controller)
        producer_ids = ProducerIds(self._allocation_of_producer_ids(controller, storage))
        groups, transactions = self._start_coordinators(
            controller, replica_manager, log_manager, producer_ids
        )
        dynamic_config.subscribe(groups.on_config_change)
        return BrokerContext(
            config=config,
            listeners=self.listeners,
            environment=environment,
            controller=controller,
            member=None if self._member is None else self._member.context,
            authorizer=self._authorizer,
            replica_manager=replica_manager,
            log_manager=log_manager,
            groups=groups,
            transactions=transactions,
            producer_ids=producer_ids,
            fetch_sessions=self._fetch_sessions(),
            topic_defaults=topic_defaults,
            dynamic_config=dynamic_config,
            metrics=self.metrics,
            bytes_in=self.metrics.counter(f"{_TOPIC_METRICS},name=BytesInPerSec"),
            bytes_out=self.metrics.counter(f"{_TOPIC_METRICS},name=BytesOutPerSec"),
            replication_bytes_out=self.metrics.counter(
                f"{_TOPIC_METRICS},name=ReplicationBytesOutPerSec"
            ),
            fetch_max_bytes=config.values.integer("fetch.max.bytes"),
        )

    def _fetch_sessions(self) -> FetchSessionCache:
        slots = self.config.values.integer("max.incremental.fetch.session.cache.slots")
        return FetchSessionCache(slots, self._dependencies.environment.random)

    def _follow_acls(self, controller: Controller) -> None:
        if self._authorizer is not None:
            from .cluster.acl_following import follow_acls

            follow_acls(controller, self._authorizer)
            self._authorizer.complete_load()

    def _throttles(self) -> "Throttles":
        from .cluster.replica_following import make_throttles

        return make_throttles(self.config)

    def _replica_parts(
        self, tier: "BrokerTier | None", controller: Controller, throttles: "Throttles | None"
    ) -> ReplicaParts:
        """What the replicas here work with; `throttles` are None unless this is a member."""
        writers = None if tier is None or not self.config.keeps_tier_metadata else tier.writers
        parts = ReplicaParts(
            remote_tier=None if tier is None else tier.reader,
            is_metadata_writer=None if writers is None else writers.are_joined_by,
            move_tools=self._move_tools(controller),
        )
        member = self._member
        if member is None or throttles is None:
            return parts
        from .cluster import replica_following as following

        remote = self.remote_log_manager
        tools = following.FollowingTools(
            self._dependencies.environment,
            self._supervisor,
            self.metrics,
            lambda: controller.image,
            lambda: member.broker_epoch,
            member.isr_requests(),
            throttles.follower,
            None if remote is None else remote.fetch_aux,
        )
        return replace(
            parts,
            selection=following.replica_selection(self.config, lambda: controller.image),
            throttle=throttles.leader,
            peers=partial(following.make_peers, self.config, tools),
        )

    def _follow_leaders(
        self,
        replica_manager: ReplicaManager,
        throttles: "Throttles",
        dynamic_config: DynamicConfig,
        log_manager: LogManager,
    ) -> None:
        """Start to follow the replicas of other brokers."""
        from .cluster.replica_following import register_fetcher_metrics
        from .metrics.replica_metrics import register_replica_metrics

        peers = replica_manager.peers
        assert peers is not None, "A member has peers."
        fetchers, isr_sender = peers
        assert fetchers is not None, "A member follows leaders."
        assert isr_sender is not None, "A member leads."
        self._started.push_async_callback(isr_sender.stop)
        isr_sender.start()
        self._started.push_async_callback(fetchers.stop)
        dynamic_config.subscribe(throttles.limit)
        register_fetcher_metrics(self.metrics, fetchers, throttles)
        register_replica_metrics(self.metrics, replica_manager, log_manager.log_dirs)

        def configure_fetchers(values: ConfigValues) -> None:
            fetchers.fetch_last_tiered(values.boolean("follower.fetch.last.tiered.offset.enable"))

        dynamic_config.subscribe(configure_fetchers)

    def _start_snapshots(self, controller: Controller) -> None:
        """Write snapshots of the metadata log, from images that all others have applied."""
        executor = ThreadPoolExecutor(1, thread_name_prefix="metadata-snapshots")
        self._started.callback(executor.shutdown)
        generator = SnapshotGenerator(
            metadata_log_config(self.config.values),
            controller.metadata_log,
            self._dependencies.environment,
            executor,
            self._supervisor,
        )
        controller.subscribe(generator.publish)
        self._started.push_async_callback(generator.stop)
        generator.start()
        self.metrics.gauge(
            f"{_SNAPSHOT_METRICS},name=LatestSnapshotGeneratedBytes",
            lambda: generator.latest_bytes,
        )
        self.metrics.gauge(
            f"{_SNAPSHOT_METRICS},name=LatestSnapshotGeneratedAgeMs",
            lambda: generator.latest_age_ms,
        )

    def _subscribe_to_config(
        self, dynamic_config: DynamicConfig, replica_manager: ReplicaManager, server: SocketServer
    ) -> None:
        def configure_replicas(values: ConfigValues) -> None:
            replica_manager.set_remote_timeouts(
                values.integer("remote.fetch.max.wait.ms"),
                values.integer("remote.list.offsets.request.timeout.ms"),
            )
            replica_manager.limit_moves(move_rate(values))

        def configure_server(values: ConfigValues) -> None:
            server.limit(connection_limits(values))

        def configure_tier(values: ConfigValues) -> None:
            remote = self.remote_log_manager
            if remote is not None:
                remote.limit(remote_log_manager_config(self.config, values))

        for listener in (configure_replicas, configure_server, configure_tier):
            dynamic_config.subscribe(listener)
        if self._tls is not None:
            dynamic_config.subscribe(self._tls.apply)

    def _start_coordinators(
        self,
        controller: Controller,
        replica_manager: ReplicaManager,
        log_manager: LogManager,
        producer_ids: ProducerIds,
    ) -> tuple[Groups, Transactions]:
        config, environment = self.config, self._dependencies.environment
        supervisor = self._supervisor
        groups = Groups(config, environment, controller, replica_manager, log_manager, supervisor)
        self._started.callback(groups.stop)
        groups.start()
        transactions = Transactions(
            config, environment, controller, replica_manager, groups, producer_ids, supervisor
        )
        self._started.push_async_callback(transactions.stop)
        transactions.start()
        return groups, transactions

    def _move_tools(self, controller: Controller) -> MoveTools:
        executor = ThreadPoolExecutor(1, thread_name_prefix="alter-log-dirs")
        self._started.callback(executor.shutdown)
        reports = None if self._member is None else self._member.directory_requests
        directories = ReplicaDirectories(
            reports
            or ControllerReports(
                self.config.node_id, controller.decide, lambda: controller.config.log_config
            ),
            self._supervisor,
        )
        return MoveTools(directories, executor, self._supervisor)

    def _make_tier(self, log_manager: LogManager, controller: Controller) -> "BrokerTier | None":
        """The broker's tier and its mounts; None if it has neither."""
        config, dependencies = self.config, self._dependencies
        if not (config.is_tiered or has_mounts(config, dependencies.files)):
            return None
        from .tier.broker_tier import BrokerTier, TierParts

        parts = TierParts(
            config,
            dependencies.environment,
            dependencies.files,
            dependencies.blocking_pool,
            dependencies.around_storage,
            log_manager,
            controller,
            lambda: self.listeners,
            self._supervisor,
            None if self._member is None else self._member.producer_ids.allocate,
        )
        return BrokerTier(parts)

    def _log_dir_failed(self, log_manager: LogManager, log_dir: LogDir) -> None:
        reason = log_dir.why_offline
        because = f": {reason}" if reason else ""
        _log.error("Log directory %s is offline%s", log_dir.path, because)
        if not log_manager.directories.online:
            self.on_fatal(
                "All log directories have failed: "
                f"{', '.join(each.path for each in log_manager.log_dirs)}."
            )
        elif log_dir is log_manager.log_dirs[0]:
            self.on_fatal(f"The log directory of the metadata log has failed: {log_dir.path}.")

    def _start_controller(
        self, storage: NodeStorage, log_config: LogConfig, flusher: Executor
    ) -> Controller:
        """The controller of a process that is the whole cluster; it registers the broker too."""
        config = self.config
        settings = controller_config(config, log_config, storage.max_open)
        if storage.metadata_log.end_offset == 0:
            settings = replace(settings, bootstrap=storage.bootstrap())
        controller = Controller(
            settings,
            storage.cluster_id,
            self._dependencies.environment,
            storage.metadata_log,
            # Kafka halts the process as well: a broker is useless without its controller.
            ControllerTools(flusher, self._supervisor, self._give_up),
        )
        controller.start(self._registration(storage), storage.check)
        return controller

    async def _join_cluster(
        self, server: SocketServer, storage: NodeStorage, dynamic_config: DynamicConfig
    ) -> Controller:
        """The controller of a member of a cluster; it has caught up when this returns."""
        from .cluster_member import ClusterMember, MemberTools
        from .metrics.quorum_metrics import register_controller_metrics, register_quorum_metrics

        # Of its own: a vote must not wait until partitions are flushed.
        flusher = ThreadPoolExecutor(1, thread_name_prefix="quorum")
        self._started.callback(flusher.shutdown)
        member = self._member = ClusterMember(
            self.config,
            self.listeners,
            storage,
            MemberTools(
                flusher,
                self._supervisor,
                dynamic_config,
                self.metrics,
                self._authorizer,
                self._give_up,
            ),
        )
        self._started.push_async_callback(self._close_logs, storage, lambda: member.broker_epoch)
        self._started.push_async_callback(member.stop)
        apis = Apis(member.node_context)
        if self.listeners.controllers:
            names = [controller.name for controller in self.listeners.controllers]
            server.open(apis.answer, self._logins(member.controller), names)
        if self.config.quorum.is_controller:
            register_controller_metrics(self.metrics, member.controller)
        register_quorum_metrics(self.metrics, member.controller, member.quorum)
        await member.start()
        self._start_snapshots(member.controller)
        if not self.config.quorum.is_broker:
            follow_quotas(member.node_context, apis, server.rates)
        else:
            await member.register(self._registration(storage))
            storage.check(member.controller.image)
        return member.controller

    def _keep_house(
        self, storage: NodeStorage, controller: Controller, flusher: Executor
    ) -> LogCompaction:
        """Begin to clean, flush and compact the logs."""
        log_manager, environment = storage.log_manager, self._dependencies.environment
        if self._member is None:
            epoch = controller.image.brokers[self.config.node_id].epoch
            self._started.push_async_callback(self._close_logs, storage, lambda: epoch)
            self._started.push_async_callback(controller.stop)
        cleaner = ThreadPoolExecutor(1, thread_name_prefix="log-cleaner")
        self._started.callback(cleaner.shutdown)
        housekeeping = Housekeeping(
            housekeeping_config(self.config.values),
            log_manager,
            environment,
            flusher,
            self._supervisor,
            cleaner,
        )
        for name in housekeeping.compaction.metrics():
            self.metrics.gauge(name, partial(housekeeping.compaction.metric, name))
        self._started.push_async_callback(housekeeping.stop)
        housekeeping.start()
        self.compaction = housekeeping.compaction
        return housekeeping.compaction

    async def _close_logs(self, storage: NodeStorage, broker_epoch: Callable[[], int]) -> None:
        if storage.is_loaded:
            await storage.close(broker_epoch())

    def _registration(self, storage: NodeStorage) -> BrokerRegistration:
        return BrokerRegistration(
            self.config.node_id,
            self._dependencies.environment.random_uuid(),
            [
                RegisteredEndpoint(
                    endpoint.name,
                    endpoint.host,
                    endpoint.port,
                    self.config.protocol_code(endpoint.name),
                )
                for endpoint in self.listeners.advertised
            ],
            storage.directory_ids,
            self.config.values.text("broker.rack") or None,
        )

    def _allocation_of_producer_ids(
        self, controller: Controller, storage: NodeStorage
    ) -> Callable[[int], Awaitable[int]]:
        """How this broker gets a block of producer ids; returns its first."""
        used = storage.forgotten_producer_ids(controller.image)
        if self._member is not None:
            return self._member.producer_ids.allocate
        return partial(controller.allocate_producer_ids, used=used)
