"""Shared by tests: lives of a controller that takes snapshots, on one simulated disk."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.replication.control.controller import Controller
from tierlog.replication.control.controller_config import ControllerConfig
from tierlog.replication.control.controller_loop import ControllerTools
from tierlog.replication.metadata.metadata_log import METADATA_PARTITION, open_metadata_log
from tierlog.replication.metadata.metadata_log_config import MetadataLogConfig
from tierlog.replication.metadata.snapshot_generator import SnapshotGenerator
from tierlog.storage.directory.log_dir import LogDir
from tierlog.tests.replication.node import (
    CLUSTER_ID,
    DATA,
    NODE_ID,
    LoopExecutor,
    create,
    registration,
)
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop, simulate

DIRECTORY = f"{DATA}/{METADATA_PARTITION}"
NEVER = MetadataLogConfig(
    max_record_bytes_between_snapshots=1 << 40,
    max_snapshot_interval_ms=0,
    retention_bytes=-1,
    retention_ms=-1,
)
OFTEN = NEVER._replace(max_record_bytes_between_snapshots=2_000)


@dataclass(frozen=True, slots=True)
class Life:
    """What runs in one life."""

    loop: SimulatedLoop
    files: SimulatedFiles
    controller: Controller
    generator: SnapshotGenerator
    supervisor: Supervisor

    def offsets_of(self, suffix: str) -> list[int]:
        """The offsets in the names of the files with a suffix."""
        names = self.files.listdir(DIRECTORY)
        return [int(name[:20]) for name in names if name.endswith(suffix)]


@asynccontextmanager
async def life_on(
    loop: SimulatedLoop, disk: SimulatedDisk, config: MetadataLogConfig
) -> AsyncGenerator[Life]:
    """One life from the start to a clean stop."""
    files = SimulatedFiles(disk)
    if not files.is_directory(DATA):
        files.mkdirs(DATA)
        files.sync_dir("/")
    environment = SimulatedEnvironment(loop, str(disk.operations))
    now_ms = environment.wall_clock_ms()
    log = open_metadata_log(LogDir(files, DATA), NODE_ID, now_ms, config=config)
    supervisor = Supervisor(environment.random)
    controller = Controller(
        ControllerConfig(NODE_ID),
        CLUSTER_ID,
        environment,
        log,
        ControllerTools(LoopExecutor(), supervisor, pytest.fail),
    )
    generator = SnapshotGenerator(config, log, environment, LoopExecutor(), supervisor)
    controller.start(registration())
    controller.subscribe(generator.publish)
    generator.start()
    try:
        yield Life(loop, files, controller, generator, supervisor)
    finally:
        await generator.stop()
        await controller.stop()


def live(
    disk: SimulatedDisk,
    story: Callable[[Life], Coroutine[None, None, None]],
    config: MetadataLogConfig,
) -> None:
    """Run a story that takes one life."""

    async def life(loop: SimulatedLoop) -> None:
        async with life_on(loop, disk, config) as begun:
            await story(begun)

    simulate(life)


async def many_topics(life: Life, count: int, prefix: str = "t") -> None:
    for number in range(count):
        await create(life.controller, f"{prefix}{number}")
    await asyncio.sleep(1)
