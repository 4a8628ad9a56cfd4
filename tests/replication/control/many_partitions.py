"""A node of a cluster with ten thousand partitions: its quorum, its controller, its replicas.

The node is the only voter, and broker 1. Brokers 2 and 3 register and send heartbeats by hand.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState as IsrMember,
    PartitionData,
    TopicData,
)
from tierlog.clients.protocol.schema import Message
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.replication.control.brokers.broker_states import Heartbeat
from tierlog.replication.control.cluster_control import ClusterControl
from tierlog.replication.control.controller import Controller
from tierlog.replication.control.controller_config import ControllerConfig, Decision
from tierlog.replication.control.controller_loop import ControllerTools
from tierlog.replication.leader.replica_manager import ReplicaManager, ReplicaManagerConfig
from tierlog.replication.metadata.cluster_image import ClusterImage, PartitionImage
from tierlog.replication.metadata.metadata_log import open_metadata_log
from tierlog.replication.metadata.metadata_records import PartitionRecord, TopicRecord
from tierlog.replication.metadata.quorum_member import QuorumMember
from tierlog.replication.raft.raft import RaftCore
from tierlog.replication.raft.raft_options import RaftOptions
from tierlog.storage.config import LogConfig
from tierlog.storage.directory.log_dir import LogDir
from tierlog.storage.manager.log_manager import LogManager
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.environment import EPOCH_MS, SimulatedEnvironment
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop

from ..node import CLUSTER_ID, LoopExecutor
from ..quorum.one_voter import NoTransport
from ..quorum.quorum_nodes import voters_at
from .cluster_story import QUIET, broker_data, directory_id

BROKERS = (1, 2, 3)
ELECTIONS_EVERY_S = 60
"""How often partitions go back to their preferred leaders."""
PARTITIONS_A_TOPIC = 250
_CONFIG = QUIET._replace(
    auto_leader_rebalance=True, leader_imbalance_check_interval_s=ELECTIONS_EVERY_S
)


class Node:
    """See the module."""

    def __init__(self, loop: SimulatedLoop, disk: SimulatedDisk) -> None:
        self._loop = loop
        self.files = SimulatedFiles(disk)
        for directory in ("/metadata", "/data"):
            if not self.files.is_directory(directory):
                self.files.mkdirs(directory)
                self.files.sync_dir("/")
        self.environment = SimulatedEnvironment(loop, str(disk.operations))
        self.log = open_metadata_log(LogDir(self.files, "/metadata"), 1, EPOCH_MS)
        storage = self.log.raft_storage(self.environment)
        core = RaftCore(
            RaftOptions(1), storage, voters_at({1: 1}), self.log.state, random.Random(1)
        )
        self.member = QuorumMember(1, core, storage, NoTransport(), LoopExecutor())
        supervisor = Supervisor(self.environment.random)
        self.controller = Controller(
            ControllerConfig(1),
            CLUSTER_ID,
            self.environment,
            self.log,
            ControllerTools(LoopExecutor(), supervisor, pytest.fail),
            self.member,
        )
        self.control = ClusterControl(self.controller, _CONFIG, self.environment, supervisor)
        self.logs = LogManager(self.files, ["/data"], LogConfig())
        self.replicas = ReplicaManager(
            ReplicaManagerConfig(1), self.environment, self.logs, lambda: self.image
        )
        self._has_begun = asyncio.Event()

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    @property
    def partitions(self) -> list[PartitionImage]:
        return [
            partition
            for topic in self.image.topics_by_name.values()
            for partition in topic.partitions.values()
        ]

    async def begin(self) -> None:
        """Join the quorum, and lead it."""
        self.controller.on_role_change(self._has_begun.set)
        await self.controller.join()
        self.control.start()
        await self._has_begun.wait()

    async def host(self) -> None:
        """Host all replicas of this broker. Its logs have been opened in a thread."""
        await asyncio.sleep(0)
        self.controller.subscribe(self.replicas.publish)
        await asyncio.sleep(0)
        await self.replicas.until_settled()
        assert len(self.replicas.partitions) == len(self.partitions)

    async def end(self) -> None:
        await self.control.stop()
        await self.controller.stop()
        await self.replicas.stop()

    async def beat(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            epoch = self.image.brokers[broker_id].epoch
            await self.control.heartbeat(
                broker_id, epoch, Heartbeat(self.log.end_offset - 1, False, False)
            )

    async def join(self, broker_id: int, incarnation: int = 1) -> None:
        await self.control.register_broker(broker_data(broker_id, incarnation))
        await self.beat(broker_id)
        assert self.image.brokers[broker_id].is_active

    async def create(self, partitions: int) -> None:
        """Topics whose leaders and replicas are on the three brokers in turn."""
        for first in range(0, partitions, PARTITIONS_A_TOPIC):
            topic_id = Uuid(first.to_bytes(16, "big"))
            records: list[Message] = [TopicRecord(name=f"topic-{first}", topic_id=topic_id)]
            for number in range(PARTITIONS_A_TOPIC):
                replicas = [BROKERS[(number + each) % 3] for each in range(3)]
                records.append(_partition(topic_id, number, replicas))
            await self._write(records)
            await self.beat(*BROKERS)

    async def _write(self, records: Sequence[Message]) -> None:
        await self.controller.decide(lambda _: Decision(records, None))

    async def keep_alive(self, *broker_ids: int, for_s: float) -> None:
        until = self._loop.time() + for_s
        while self._loop.time() < until:
            await self.beat(*broker_ids)
            await asyncio.sleep(1)

    async def widen(self, leader: int) -> None:
        """The leader asks for all replicas in the ISR of what it leads, in one request."""
        request = AlterPartitionRequest(
            broker_id=leader, broker_epoch=self.image.brokers[leader].epoch
        )
        for topic in self.image.topics_by_name.values():
            asked = [
                PartitionData(
                    partition_index=number,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    new_isr_with_epochs=[
                        IsrMember(broker_id=each, broker_epoch=self.image.brokers[each].epoch)
                        for each in BROKERS
                    ],
                )
                for number, partition in topic.partitions.items()
                if partition.leader == leader
            ]
            request.topics.append(TopicData(topic_id=topic.topic_id, partitions=asked))
        response = await self.control.alter_partition(request)
        codes = [each.error_code for topic in response.topics for each in topic.partitions]
        assert not any(codes)


def _partition(topic_id: Uuid, number: int, replicas: Sequence[int]) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=list(replicas),
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[directory_id(broker_id) for broker_id in replicas],
    )


@asynccontextmanager
async def running(node: Node) -> AsyncGenerator[None]:
    """From the start of a node to its end."""
    try:
        await node.begin()
        yield
    finally:
        await node.end()
