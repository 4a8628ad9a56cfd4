"""A whole broker in the simulation: the production code on virtual time, a network and a disk.

It runs on the host of its name. `kill` is kill -9, `cut_power` takes the page cache along; after
either, `start` begins a new process on what the disk still has.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace

from tierlog.broker.broker import Broker
from tierlog.broker.config.config import read_config
from tierlog.broker.dependencies import Dependencies
from tierlog.broker.node_storage import NodeStorage
from tierlog.replication.control.controller import Controller
from tierlog.replication.housekeeping.log_compaction import LogCompaction
from tierlog.storage.manager.log_manager import LogManager
from tierlog.tests.simulation.disk import SimulatedDisk, Survival
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import Process, SimulatedNetwork, on_host
from tierlog.tests.simulation.streams import StreamNetwork
from tierlog.tiering.blocking_pool import BlockingPool

PORT = 9092


class _WatchedBroker(Broker):
    """A broker whose logs can be looked at from outside, once they are open."""

    logs: LogManager | None = None
    on_recovery: Callable[[LogManager], None] | None = None

    def _keep_house(
        self, storage: NodeStorage, controller: Controller, flusher: Executor
    ) -> LogCompaction:
        compaction = super()._keep_house(storage, controller, flusher)
        self.logs = storage.log_manager
        if self.on_recovery is not None:
            self.on_recovery(self.logs)
        return compaction


class SimulatedBroker:
    """See the module."""

    def __init__(
        self,
        loop: SimulatedLoop,
        network: SimulatedNetwork,
        properties: Mapping[str, str] | None = None,
        host: str = "broker",
    ) -> None:
        self.host = host
        self.disk = SimulatedDisk()
        self.starts = 0
        self._loop = loop
        self._network = network
        self.properties = {
            "listeners": f"PLAINTEXT://{host}:{PORT}",
            "log.dirs": "/data",
            "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(properties or {}),
        }
        self._process: Process | None = None
        self._killed = asyncio.Event()
        self._files = SimulatedFiles(self.disk)
        # The volume is mounted there: the directory itself was not made by the broker.
        self._files.mkdirs("/data")
        self._files.sync_dir("/")
        self._broker: _WatchedBroker | None = None
        self.pools: Callable[[int], BlockingPool] | None = None
        """What the next start has for threads that wait for the tier; None is the loop's own."""
        self.on_recovery: Callable[[LogManager], None] | None = None
        """Told of the logs of the next start as soon as they are open, before any client is."""

    @property
    def logs(self) -> LogManager | None:
        """The logs of the process that runs, once they are open."""
        return self._broker.logs if self.is_running and self._broker else None

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{PORT}"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    async def start(self) -> None:
        """Begin a process and wait until it serves."""
        assert self._process is None, "The broker runs already."
        self.starts += 1
        self._broker = None
        self.disk.now_ms = SimulatedEnvironment(self._loop).wall_clock_ms()
        with on_host(self.host) as self._process:
            self._files = SimulatedFiles(self.disk)
            environment = SimulatedEnvironment(self._loop, f"{self.host}/{self.starts}")
            dependencies = Dependencies(environment, self._files, StreamNetwork())
            if self.pools is not None:
                dependencies = replace(dependencies, blocking_pool=self.pools)
            self._broker = _WatchedBroker(read_config(self.properties, self.host), dependencies)
            self._broker.on_recovery = self.on_recovery
            await self._broker.start()

    async def start_unless_killed(self) -> bool:
        """Begin a process that may be killed before it serves; whether it serves."""
        starting = asyncio.ensure_future(self.start())
        self._killed = asyncio.Event()
        killed = asyncio.ensure_future(self._killed.wait())
        await asyncio.wait({starting, killed}, return_when=asyncio.FIRST_COMPLETED)
        killed.cancel()
        if not self._killed.is_set():
            await starting
            return True
        # Whatever the dead process has still to do, nobody waits for it.
        starting.cancel()
        starting.add_done_callback(_forget)
        return False

    async def stop(self) -> None:
        """Stop cleanly."""
        assert self._broker is not None
        assert self._process is not None
        await self._broker.stop()
        self._network.kill(self._process)
        self._process = None

    def kill(self) -> None:
        """End the process at once; the disk keeps all that was written."""
        self._end(Survival.EVERYTHING)

    def cut_power(self, survival: Survival = Survival.BY_CHANCE) -> None:
        """End the process at once; of what was not synced, chance decides if nobody else does."""
        self._end(survival)

    def _end(self, survival: Survival) -> None:
        assert self._process is not None
        self._files.is_alive = False
        self._network.kill(self._process)
        self.disk.lose_power(survival, self._loop.random)
        self._process = None
        self._killed.set()


def _forget(starting: "asyncio.Future[None]") -> None:
    """How the start of a dead process ended matters to nobody."""
    if not starting.cancelled():
        starting.exception()
