"""A controller with `ClusterControl`, and brokers that register and send heartbeats by hand."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.schema import Message
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.replication.control.brokers.broker_states import Heartbeat, HeartbeatAnswer
from tierlog.replication.control.brokers.death_hint import EndedSince
from tierlog.replication.control.brokers.registration import BrokerRegistrationData
from tierlog.replication.control.cluster_control import ClusterControl
from tierlog.replication.control.cluster_control_config import ClusterControlConfig
from tierlog.replication.control.controller import Controller
from tierlog.replication.control.controller_config import Decision
from tierlog.replication.metadata.cluster_image import (
    BrokerImage,
    ClusterDelta,
    ClusterImage,
    Endpoint,
    PartitionImage,
)
from tierlog.replication.metadata.metadata_records import (
    SUPPORTED_FEATURES,
    PartitionRecord,
    TopicRecord,
)
from tierlog.tests.replication.node import CLUSTER_ID, open_controller, registration
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop, simulate

TOPIC_ID = Uuid(b"t" * 16)
QUIET = ClusterControlConfig(auto_leader_rebalance=False, max_idle_interval_ms=0)
"""Nothing happens by itself but the fencing of silent brokers."""


def broker_data(
    broker_id: int, incarnation: int = 1, *, directories: int = 1, previous_epoch: int = -1
) -> BrokerRegistrationData:
    """What a broker registers with; each has directories of its own."""
    return BrokerRegistrationData(
        broker_id,
        CLUSTER_ID,
        Uuid(bytes([broker_id, incarnation]) * 8),
        [Endpoint("PLAINTEXT", "127.0.0.1", 9_092 + broker_id, 0)],
        SUPPORTED_FEATURES,
        [directory_id(broker_id, number) for number in range(directories)],
        previous_broker_epoch=previous_epoch,
    )


def directory_id(broker_id: int, number: int = 0) -> Uuid:
    return Uuid(bytes([100 + broker_id, number]) * 8)


class ClusterStory:
    """One active controller, the only voter, whose own broker (1) plays no part."""

    def __init__(self, controller: Controller, control: ClusterControl) -> None:
        self.controller = controller
        self.control = control
        self.records: list[tuple[ClusterImage, ClusterDelta]] = []

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    def broker(self, broker_id: int) -> BrokerImage:
        return self.image.brokers[broker_id]

    def partition(self, number: int = 0) -> PartitionImage:
        return self.image.topics_by_id[TOPIC_ID].partitions[number]

    async def beat(
        self,
        broker_id: int,
        *,
        fence: bool = False,
        shutdown: bool = False,
        read: int | None = None,
        offline: Sequence[Uuid] = (),
    ) -> HeartbeatAnswer:
        """A heartbeat of the registered incarnation, which has read all unless `read` is given."""
        offset = self.controller.metadata_log.end_offset - 1 if read is None else read
        return await self.control.heartbeat(
            broker_id, self.broker(broker_id).epoch, Heartbeat(offset, fence, shutdown), offline
        )

    async def join(self, *broker_ids: int) -> None:
        """Register brokers and unfence them."""
        for broker_id in broker_ids:
            await self.control.register_broker(broker_data(broker_id))
            await self.beat(broker_id)
            assert self.broker(broker_id).is_active

    async def create_topic(
        self, *replicas: Sequence[int], isr: Sequence[int] | None = None
    ) -> None:
        """A topic with one partition for each list of replicas; the first in sync leads."""
        records: list[Message] = [TopicRecord(name="orders", topic_id=TOPIC_ID)]
        for number, each in enumerate(replicas):
            in_sync = list(each if isr is None else isr)
            records.append(
                PartitionRecord(
                    partition_id=number,
                    topic_id=TOPIC_ID,
                    replicas=list(each),
                    isr=in_sync,
                    leader=in_sync[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[directory_id(broker_id) for broker_id in each],
                )
            )
        await self.controller.decide(lambda _: Decision(records, None))

    async def keep_alive(self, *broker_ids: int, for_s: float, every_s: float = 2.0) -> None:
        """Let time pass in which only these brokers send heartbeats."""
        loop = asyncio.get_running_loop()
        until = loop.time() + for_s
        while loop.time() < until:
            for broker_id in broker_ids:
                await self.beat(broker_id)
            await asyncio.sleep(min(every_s, until - loop.time()))


@asynccontextmanager
async def controlled_cluster(
    loop: SimulatedLoop,
    config: ClusterControlConfig = QUIET,
    disk: SimulatedDisk | None = None,
    ended_since: EndedSince = lambda _: None,
) -> AsyncGenerator[ClusterStory]:
    """An active controller, which is stopped at the end."""
    controller = open_controller(loop, SimulatedFiles(disk or SimulatedDisk()))
    controller.start(registration())
    environment = SimulatedEnvironment(loop, "cluster control")
    supervisor = Supervisor(environment.random)
    control = ClusterControl(controller, config, environment, supervisor, ended_since)
    control.start()
    try:
        yield ClusterStory(controller, control)
    finally:
        await control.stop()
        await controller.stop()


def run_story(
    story: Callable[[ClusterStory], Awaitable[None]],
    config: ClusterControlConfig = QUIET,
    disk: SimulatedDisk | None = None,
    ended_since: EndedSince = lambda _: None,
) -> None:
    """Run a story in a controlled cluster."""

    async def run(loop: SimulatedLoop) -> None:
        async with controlled_cluster(loop, config, disk, ended_since) as cluster:
            await story(cluster)

    simulate(run)
