"""Whole controllers of a quorum in one process: each has its socket, its disk and its thread."""

import asyncio
import errno
import random
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.replication.control.brokers.broker_control import register_broker
from tierlog.replication.control.controller import Controller
from tierlog.replication.control.controller_config import ControllerConfig, Decision
from tierlog.replication.control.controller_loop import ControllerTools
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage
from tierlog.replication.metadata.metadata_log_config import MetadataLogConfig
from tierlog.replication.metadata.quorum_member import QuorumMember
from tierlog.replication.metadata.snapshot_generator import SnapshotGenerator
from tierlog.replication.quorum.quorum import Quorum
from tierlog.replication.quorum.quorum_channel import QuorumChannel
from tierlog.replication.raft.raft import RaftCore
from tierlog.replication.raft.voter_set import VoterSet

from ..node import CLUSTER_ID, registration
from ..quorum.quorum_nodes import QuorumNode, voters_at

TIMEOUT_S = 60
"""For what takes a few seconds on a quiet machine."""


class ControllerNode(QuorumNode):
    """A node of the quorum with its controller, and what that has published and said."""

    def __init__(
        self, node_id: int, directory: Path, voters: VoterSet, log_config: MetadataLogConfig
    ) -> None:
        super().__init__(node_id, directory, voters, CLUSTER_ID)
        self.log_config = log_config
        self._writer = ThreadPoolExecutor(1)
        self.member: QuorumMember
        self.controller: Controller
        self.snapshots: SnapshotGenerator
        self.roles: list[bool] = []
        self.published: list[ClusterImage] = []
        self.deltas: list[ClusterDelta] = []
        self.failures: list[str] = []

    def assemble(self, core: RaftCore, channel: QuorumChannel) -> Quorum:
        environment, supervisor = SystemEnvironment(), Supervisor(random.Random(self.node_id))
        self.member = QuorumMember(self.node_id, core, self.storage, channel, self.executor)
        self.controller = Controller(
            ControllerConfig(self.node_id),
            CLUSTER_ID,
            environment,
            self.log,
            ControllerTools(self.executor, supervisor, self.failures.append),
            self.member,
        )
        self.controller.on_role_change(lambda: self.roles.append(self.controller.is_active))
        self.controller.subscribe(self._publish)
        self.snapshots = SnapshotGenerator(
            self.log_config, self.log, environment, self._writer, supervisor
        )
        self.controller.subscribe(self.snapshots.publish)
        return self.member.quorum

    def _publish(self, image: ClusterImage, delta: ClusterDelta) -> None:
        # Whoever keeps the first image and applies every delta has every image.
        base = self.published[-1] if self.published else ClusterImage(CLUSTER_ID)
        assert delta.base == base
        self.published.append(image)
        self.deltas.append(delta)

    async def begin(self) -> None:
        await self.controller.join()
        self.snapshots.start()

    async def stop(self) -> None:
        await self.snapshots.stop()
        await self.controller.stop()
        await self.disconnect()
        self.executor.shutdown(wait=True)
        self._writer.shutdown(wait=True)

    async def kill(self) -> None:
        await self.snapshots.stop()
        await self.disconnect()
        self.executor.shutdown(wait=True)
        self._writer.shutdown(wait=True)
        # Nothing is written any more, not even the clean end of the log.
        self.log_dir.fail(OSError(errno.EIO, "Killed"))
        await self.controller.stop()

    @property
    def image(self) -> ClusterImage:
        return self.controller.image


class Controllers:
    """Three voters with their controllers."""

    def __init__(self, directory: Path, log_config: MetadataLogConfig) -> None:
        self._directory = directory
        self._log_config = log_config
        self._voters = voters_at({node_id: free_port() for node_id in (1, 2, 3)})
        self.alive: dict[int, ControllerNode] = {}

    async def start(self, node_id: int) -> ControllerNode:
        directory = self._directory / str(node_id)
        node = ControllerNode(node_id, directory, self._voters, self._log_config)
        self.alive[node_id] = node
        await node.start()
        return node

    async def kill(self, node: ControllerNode) -> None:
        del self.alive[node.node_id]
        await node.kill()

    async def active(self, not_in_epoch: int = -1) -> ControllerNode:
        """Wait until a controller is active in the newest epoch, and another node follows it."""

        def found() -> ControllerNode | None:
            epoch = max(node.quorum.epoch for node in self.alive.values())
            for node in self.alive.values():
                followers = sum(
                    each.member.leader_id == node.node_id and each.quorum.epoch == epoch
                    for each in self.alive.values()
                )
                if node.controller.is_active and epoch != not_in_epoch and followers >= 2:
                    return node
            return None

        await eventually(lambda: found() is not None)
        node = found()
        assert node is not None
        return node

    def standbys(self, active: ControllerNode) -> list[ControllerNode]:
        return [node for node in self.alive.values() if node is not active]

    async def in_step(self, active: ControllerNode) -> ClusterImage:
        """Wait until every node that lives has the active controller's image, and return it."""
        await eventually(
            lambda: all(node.image.offset >= active.image.offset for node in self.alive.values())
        )
        for node in self.alive.values():
            assert node.image == active.image, f"node {node.node_id} has another image"
        return active.image


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110  # many conditions, of many objects
            await asyncio.sleep(0.01)


async def register_broker_by(active: Controller) -> None:
    """Register the broker that the topics of the tests are placed on."""

    def register(image: ClusterImage) -> Decision[int]:
        return register_broker(image, registration(), active.metadata_log.end_offset)

    await active.decide(register)


@asynccontextmanager
async def three_controllers(
    directory: Path, log_config: MetadataLogConfig | None = None
) -> AsyncGenerator[Controllers, None]:
    """Three nodes that have just been started."""
    controllers = Controllers(directory, log_config or MetadataLogConfig())
    try:
        for node_id in (1, 2, 3):
            await controllers.start(node_id)
        yield controllers
    finally:
        # A graceful stop of all waits for elections that nobody can win any more.
        for node in controllers.alive.values():
            await node.kill()
    for node in controllers.alive.values():
        assert not node.failures
