"""One of three whole processes of a cluster, a broker and a controller, in the simulation.

It runs the production code on the host of its name, with a disk of its own. Whatever ends a life
(`kill -9`, a loss of power, a failure that the process cannot go on after) is followed by `begin`.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

from tierlog.broker.broker import Broker, StartError
from tierlog.broker.config.config import BrokerConfig, read_config
from tierlog.broker.config.dynamic_config import DynamicConfig
from tierlog.broker.dependencies import Dependencies
from tierlog.broker.network.socket_server import SocketServer
from tierlog.broker.node_storage import NodeStorage
from tierlog.broker.request.context import BrokerContext
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.control.controller import Controller
from tierlog.replication.housekeeping.log_compaction import LogCompaction
from tierlog.replication.leader.replica_manager import ReplicaManager
from tierlog.replication.metadata.cluster_image import ClusterImage
from tierlog.storage.directory.log_dir import LogDir, MetaProperties
from tierlog.storage.manager.log_manager import LogManager
from tierlog.tests.simulation.disk import SimulatedDisk, Survival
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import Process, SimulatedNetwork, on_host
from tierlog.tests.simulation.streams import StreamNetwork
from tierlog.tiering.blocking_pool import BlockingPool

IDS = (1, 2, 3)
PORT = 9092
CONTROLLER_PORT = 9093
CLUSTER_ID = "c2ltdWxhdGVkY2x1c3RlcQ"
LOG_DIR = "/data"
BOOTSTRAP = [f"broker{node_id}:{PORT}" for node_id in IDS]

PROPERTIES = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.quorum.voters": ",".join(f"{i}@broker{i}:{CONTROLLER_PORT}" for i in IDS),
    "log.dirs": LOG_DIR,
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    # Else each segment's index takes ten megabytes of a disk that is in memory.
    "log.index.size.max.bytes": "4096",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1500",
    "controller.quorum.request.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "700",
    "broker.session.timeout.ms": "2500",
    "replica.fetch.wait.max.ms": "600",
    "replica.fetch.backoff.ms": "200",
    "replica.lag.time.max.ms": "1200",
    "replica.socket.timeout.ms": "2500",
    "controller.socket.timeout.ms": "2500",
}

TIER_PROPERTIES = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "700",
    "remote.log.manager.task.retry.backoff.ms": "100",
    "remote.log.manager.task.retry.backoff.max.ms": "2000",
    "remote.partition.remover.task.interval.ms": "5000",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "3",
    "rlmm.config.remote.log.metadata.topic.min.isr": "2",
    "log.retention.check.interval.ms": "700",
    "log.initial.task.delay.ms": "200",
}


@lru_cache(64)
def _config(node_id: int, more: tuple[tuple[str, str], ...]) -> BrokerConfig:
    host = f"broker{node_id}"
    own = {
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://{host}:{PORT},CONTROLLER://{host}:{CONTROLLER_PORT}",
    }
    return read_config({**PROPERTIES, **own, **dict(more)}, host)


class _WatchedBroker(Broker):
    """A broker that can be looked into from outside, once it is built."""

    context: BrokerContext | None = None

    async def _build_broker(
        self,
        server: SocketServer,
        storage: NodeStorage,
        controller: Controller,
        dynamic_config: DynamicConfig,
        compaction: LogCompaction,
    ) -> BrokerContext:
        self.context = await super()._build_broker(
            server, storage, controller, dynamic_config, compaction
        )
        return self.context


class Member:
    """See the module."""

    def __init__(
        self,
        loop: SimulatedLoop,
        network: SimulatedNetwork,
        node_id: int,
        properties: Mapping[str, str],
    ) -> None:
        self.id = node_id
        self.host = f"broker{node_id}"
        self.disk = SimulatedDisk()
        self.starts = 0
        self.clock_skew_ms = 0
        self.is_serving = False
        self.pools: Callable[[int], BlockingPool] | None = None
        """What the next start has for threads that wait for the tier; None is the loop's own."""
        self.why_ended = ""
        """Why the last life ended by itself; empty if something else has ended it."""
        self._last_image: ClusterImage | None = None
        self._last_ends: dict[TopicPartition, int] = {}
        self._last_high_watermarks: dict[TopicPartition, int] = {}
        self.on_end: Callable[[Member], None] = lambda _: None
        self._loop = loop
        self._network = network
        self._config = _config(node_id, tuple(properties.items()))
        self.process: Process | None = None
        self.broker: _WatchedBroker | None = None
        self._environment: SimulatedEnvironment | None = None
        self._files = SimulatedFiles(self.disk)
        self._format()

    def _format(self) -> None:
        self._files.mkdirs(LOG_DIR)
        self._files.sync_dir("/")
        directory = LogDir(self._files, LOG_DIR)
        directory_id = Uuid(bytes(14) + bytes((7, self.id)))
        directory.write_meta_properties(MetaProperties(CLUSTER_ID, self.id, directory_id))

    @property
    def is_running(self) -> bool:
        return self.process is not None

    @property
    def context(self) -> BrokerContext | None:
        """The parts of the broker that runs, once they are there."""
        return self.broker.context if self.process is not None and self.broker else None

    @property
    def logs(self) -> LogManager | None:
        """The logs of the process that runs."""
        return self.context.log_manager if self.context else None

    @property
    def replicas(self) -> ReplicaManager | None:
        """The replicas of the process that runs."""
        return self.context.replica_manager if self.context else None

    @property
    def controller(self) -> Controller | None:
        """The controller of the process that runs."""
        return self.context.controller if self.context else None

    @property
    def image(self) -> ClusterImage | None:
        """The newest committed image that this process has had, in all its lives."""
        images = [self._last_image, self.controller.image if self.controller else None]
        return max(filter(None, images), key=lambda image: image.offset, default=None)

    def log_end(self, name: TopicPartition) -> int:
        """Where the log of a partition ends; of a process that is down, where it ended."""
        replica = self.replicas.partitions.get(name) if self.replicas else None
        return self._last_ends.get(name, -1) if replica is None else replica.log.log_end_offset

    def high_watermark(self, name: TopicPartition) -> int:
        """The highest one that this broker has had of a partition, in all its lives."""
        replica = self.replicas.partitions.get(name) if self.replicas else None
        before = self._last_high_watermarks.get(name, -1)
        return before if replica is None else max(before, replica.log.high_watermark)

    def note_ends(self) -> None:
        """Remember how far all is: a follower's high watermark may step back."""
        self._last_image = self.image
        if self.replicas is not None:
            for name, replica in self.replicas.partitions.items():
                self._last_high_watermarks[name] = self.high_watermark(name)
                self._last_ends[name] = replica.log.log_end_offset

    def begin(self) -> None:
        """Begin a life, if none is under way. It serves when it has come so far."""
        if self.process is not None:
            return
        self.starts += 1
        self.is_serving = False
        self.why_ended = ""
        self.disk.now_ms = SimulatedEnvironment(self._loop).wall_clock_ms()
        self._files = SimulatedFiles(self.disk)
        with on_host(self.host) as self.process:
            environment = SimulatedEnvironment(self._loop, f"{self.host}/{self.starts}")
            environment.clock_skew_ms = self.clock_skew_ms
            self._environment = environment
            dependencies = Dependencies(environment, self._files, StreamNetwork())
            if self.pools is not None:
                dependencies = replace(dependencies, blocking_pool=self.pools)
            broker = self.broker = _WatchedBroker(self._config, dependencies)
            broker.on_fatal = lambda sentence: self._fail(broker, sentence)
            task = self._loop.create_task(self._live(broker), name=f"life of {self.host}")
        task.add_done_callback(_forget)

    async def _live(self, broker: _WatchedBroker) -> None:
        try:
            await broker.start()
        except StartError as error:
            self._fail(broker, str(error))
        else:
            if broker is self.broker and self.process is not None:
                self.is_serving = True

    def _fail(self, broker: Broker, sentence: str) -> None:
        """The process ends by itself, as `tierlog serve` does."""
        if broker is self.broker and self.process is not None and not self.why_ended:
            self.why_ended = sentence
            self._loop.call_soon(self._end_failed, broker)

    def _end_failed(self, broker: Broker) -> None:
        if broker is self.broker and self.process is not None:
            self.end(Survival.EVERYTHING)
            self.on_end(self)

    def leap(self, skew_ms: int) -> None:
        """Set the wall clock."""
        self.clock_skew_ms = skew_ms
        if self._environment is not None:
            self._environment.clock_skew_ms = skew_ms

    async def stop(self) -> bool:
        """Stop cleanly; returns whether it did, and was not gone before."""
        broker, process = self.broker, self.process
        if broker is None or process is None or not self.is_serving:
            return False
        self.is_serving = False
        self.note_ends()
        await broker.stop()
        if self.process is not process:
            return False
        self._last_image = self.image
        self._network.kill(process)
        self.process = None
        return True

    def end(self, survival: Survival) -> None:
        """End the process at once; `survival` says what becomes of what was not synced."""
        assert self.process is not None
        self.note_ends()
        self._files.is_alive = False
        self._network.kill(self.process)
        self.disk.lose_power(survival, self._loop.random)
        self.process = None
        self.is_serving = False


def _forget(task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        task.exception()
