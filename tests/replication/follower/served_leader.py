"""A leader on a real socket, and a follower with fetchers; each has a simulated disk of its own."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

from tierlog.broker.handlers import fetch, list_offsets, offset_for_leader_epoch
from tierlog.broker.request.context import BrokerContext, Deferred, RequestContext
from tierlog.broker.request.fetch_session import FetchSessionCache
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.network.network import Address
from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.schema import Message
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.runtime.steps import finished
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.follower.leader_requests import FetchLimits
from tierlog.replication.follower.replica_fetcher import FetcherTools, ReplicaFetcherConfig
from tierlog.replication.follower.replica_fetchers import ReplicaFetchers
from tierlog.replication.leader.replica_manager import (
    PartitionsHere,
    ReplicaManager,
    ReplicaManagerConfig,
    ReplicaParts,
    ReplicaPeers,
)
from tierlog.replication.metadata.cluster_image import (
    ClusterDelta,
    ClusterImage,
    ConfigResourceType,
)
from tierlog.replication.metadata.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tierlog.replication.partition.append_data import AppendEntry, AppendRequest
from tierlog.replication.replication_quota import ReplicationQuota
from tierlog.replication.throttled_replicas import ThrottledReplicas
from tierlog.storage.config import LogConfig
from tierlog.storage.files import FileRegion
from tierlog.storage.log.aux_state import AuxRequest, AuxState
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.manager.log_manager import LogManager
from tierlog.tests import wire
from tierlog.tests.broker.cluster.scripted_controller import ScriptedController
from tierlog.tests.replication.broker_node import batch_of
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tiering.remote_storage import RemoteStorageError

TOPIC_ID = Uuid(b"t" * 16)
PARTITIONS = 3
WITHIN_S = 60
BACKOFF_MS = 20


class SettableClock(SystemEnvironment):
    """The real environment, whose wall clock a test sets."""

    ahead_ms = 0

    def wall_clock_ms(self) -> int:
        return super().wall_clock_ms() + self.ahead_ms


class Node:
    """A broker of two, without a controller: it hears of whatever a test publishes."""

    def __init__(
        self,
        node_id: int,
        peers: Callable[[PartitionsHere], ReplicaPeers] | None = None,
    ) -> None:
        self.node_id = node_id
        self.environment = SettableClock()
        files = SimulatedFiles(SimulatedDisk())
        files.mkdirs("/data")
        self.image = ClusterImage("cluster")
        self.logs = LogManager(files, ["/data"], LogConfig())
        self.replicas = ReplicaManager(
            ReplicaManagerConfig(node_id),
            self.environment,
            self.logs,
            lambda: self.image,
            ReplicaParts(peers=peers),
        )

    def publish(self, *records: Message) -> None:
        delta = ClusterDelta(self.image)
        delta.replay_all(records)
        self.image = delta.apply(self.image.offset + len(records), 1)
        self.replicas.publish(self.image, delta)

    def tier(self) -> None:
        """Make the topic tiered."""
        config = ConfigRecord(
            resource_type=ConfigResourceType.TOPIC,
            resource_name="t",
            name="remote.storage.enable",
            value="true",
        )
        self.publish(config)

    def log(self, partition: int = 0) -> UnifiedLog:
        return self.replicas.partition(TopicPartition("t", partition)).log

    def content(self, partition: int = 0) -> bytes:
        """All bytes of the log's segments."""
        segments = self.log(partition).local.segments
        return b"".join(bytes(batch.view) for each in segments for batch in each.batches())

    def append(self, *values: bytes, partition: int = 0) -> None:
        entry = AppendEntry(TopicPartition("t", partition), batch_of(*values))
        self.replicas.append_records(AppendRequest([entry], 1, 1_000))
        assert not entry.error


def _no_nodes(*_: object) -> list[object]:
    return []


class ServedLeader(Node):
    """Broker 1, which serves its partitions at an address."""

    def __init__(self) -> None:
        super().__init__(1)
        self.server = ScriptedController(
            {
                ApiKey.FETCH: self._fetch,
                ApiKey.LIST_OFFSETS: self._list_offsets,
                ApiKey.OFFSET_FOR_LEADER_EPOCH: self._epoch_end,
            }
        )
        self.held: asyncio.Event | None = None
        """While a test sets it, no response leaves before the event."""
        self.held_responses = 0
        self.cuts_next = False
        self.sessions = FetchSessionCache(10, self.environment.random)

    @property
    def fetches(self) -> list[wire.FetchRequest]:
        """All that were sent."""
        return [each for each in self.server.requests if isinstance(each, wire.FetchRequest)]

    def _context(self) -> BrokerContext:
        """What the handlers of these three APIs use of a broker."""
        return cast(
            "BrokerContext",
            SimpleNamespace(
                fetch_sessions=self.sessions,
                environment=self.environment,
                authorizer=None,
                controller=SimpleNamespace(image=self.image),
                replica_manager=self.replicas,
                bytes_out=SimpleNamespace(add=_no_nodes),
                replication_bytes_out=SimpleNamespace(add=_no_nodes),
                nodes=_no_nodes,
                fetch_max_bytes=1 << 20,
            ),
        )

    async def _fetch(self, message: Message) -> Message | None:
        request = cast("wire.FetchRequest", message)
        context = RequestContext(ApiKey.FETCH, 18, "test", "127.0.0.1", "PLAINTEXT")
        answer = fetch.handle(self._context(), context, request)
        response = answer.then(await answer.work) if isinstance(answer, Deferred) else answer
        for topic in cast("wire.FetchResponse", response).responses:
            for partition in topic.partitions:
                if isinstance(partition.records, FileRegion):
                    partition.records = partition.records.read()
        if self.held is not None:
            self.held_responses += 1
            await self.held.wait()
        if self.cuts_next:
            self.cuts_next = False
            return None
        return cast("wire.FetchResponse", response)

    def _list_offsets(self, message: Message) -> Message:
        request = cast("wire.ListOffsetsRequest", message)
        context = RequestContext(ApiKey.LIST_OFFSETS, 11, "test", "127.0.0.1", "PLAINTEXT")
        response = finished(list_offsets.handle(self._context(), context, request))
        assert isinstance(response, Message)
        return response

    def _epoch_end(self, message: Message) -> Message:
        request = cast("wire.OffsetForLeaderEpochRequest", message)
        context = RequestContext(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, "test", "h", "PLAINTEXT")
        return offset_for_leader_epoch.handle(self._context(), context, request)


class FollowingNode(Node):
    """Broker 2, which fetches."""

    def __init__(self, leader: ServedLeader, fetchers_per_leader: int = 1) -> None:
        self._fetchers_per_leader = fetchers_per_leader
        super().__init__(2, self._make_peers)
        self.leader: ServedLeader | None = leader
        self.replicated_bytes = 0
        self.tier_states: dict[int, AuxState] = {}
        """What the tier has for each partition."""
        self.tier_requests: list[AuxRequest] = []
        self.held: asyncio.Event | None = None
        """While a test sets it, the tier answers nothing before the event."""

    def _make_peers(self, here: PartitionsHere) -> ReplicaPeers:
        self.supervisor = Supervisor(self.environment.random)
        self.throttle = ThrottledReplicas(
            ReplicationQuota(),
            self.node_id,
            lambda topic: topic.follower_replication_throttled_replicas,
        )
        config = ReplicaFetcherConfig(
            self.node_id,
            self._fetchers_per_leader,
            FetchLimits(max_wait_ms=50),
            backoff_ms=BACKOFF_MS,
        )
        tools = FetcherTools(
            self.environment,
            self.supervisor,
            self._address,
            lambda: 20,
            self._fetch_aux,
            throttle=self.throttle,
            on_high_watermark=here.on_high_watermark,
            count_bytes=self._count,
        )
        self.fetchers = ReplicaFetchers(config, tools)
        return ReplicaPeers(self.fetchers)

    def _count(self, nbytes: int) -> None:
        self.replicated_bytes += nbytes

    async def _fetch_aux(self, request: AuxRequest) -> AuxState:
        self.tier_requests.append(request)
        if self.held is not None:
            await self.held.wait()
        state = self.tier_states.get(request.topic_id_partition.partition)
        if state is None:
            raise RemoteStorageError("The tier lacks it.")
        return state

    def _address(self, broker_id: int) -> Address | None:
        if self.leader is None or broker_id != self.leader.node_id:
            return None
        host, port = self.leader.server.address
        return Address(str(host), int(port))


def created(isr: tuple[int, ...] = (1, 2), leader: int = 1, epoch: int = 0) -> list[Message]:
    """Two brokers, and a topic with partitions on both."""
    return [
        *(
            RegisterBrokerRecord(broker_id=each, broker_epoch=10 * each, fenced=False)
            for each in (1, 2)
        ),
        TopicRecord(name="t", topic_id=TOPIC_ID),
        *(
            PartitionRecord(
                partition_id=each,
                topic_id=TOPIC_ID,
                replicas=[1, 2],
                isr=list(isr),
                leader=leader,
                leader_epoch=epoch,
                partition_epoch=0,
            )
            for each in range(PARTITIONS)
        ),
    ]


def led_by(leader: int, *partitions: int) -> list[Message]:
    """These partitions have another leader, and so a new leader epoch."""
    return [
        PartitionChangeRecord(partition_id=each, topic_id=TOPIC_ID, leader=leader)
        for each in partitions
    ]


def isr_of(partition: int, *isr: int) -> Message:
    return PartitionChangeRecord(
        partition_id=partition, topic_id=TOPIC_ID, isr=list(isr), leader=-2
    )


REMOVED = RemoveTopicRecord(topic_id=TOPIC_ID)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for it; the event loop serves leader and follower meanwhile."""
    async with asyncio.timeout(WITHIN_S):
        while not condition():
            await _a_moment()


def _a_moment() -> Awaitable[None]:
    return asyncio.sleep(0.001)


@asynccontextmanager
async def two_nodes(
    fetchers_per_leader: int = 1,
) -> AsyncGenerator[tuple[ServedLeader, FollowingNode]]:
    """A leader that serves and a follower that follows nothing yet."""
    leader = ServedLeader()
    await leader.server.start()
    follower = FollowingNode(leader, fetchers_per_leader)
    try:
        async with asyncio.timeout(2 * WITHIN_S):
            yield leader, follower
        assert not follower.supervisor.failures
    finally:
        await follower.fetchers.stop()
        await follower.replicas.stop()
        await leader.replicas.stop()
        await leader.server.stop()
