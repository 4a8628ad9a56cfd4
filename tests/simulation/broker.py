"""A whole broker in the simulation: the production code on virtual time, a network and a disk.

It runs on the host of its name. `kill` is kill -9, `cut_power` takes the page cache along; after
either, `start` begins a new process on what the disk still has.
"""

from collections.abc import Mapping

from tierlog.broker.broker import Broker, World
from tierlog.broker.config import read_config
from tierlog.broker.transport import StreamNetwork
from tierlog.tests.simulation.disk import SimulatedDisk, Survival
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import Process, SimulatedNetwork, on_host

PORT = 9092


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
        self._properties = {
            "listeners": f"PLAINTEXT://{host}:{PORT}",
            "log.dirs": "/data",
            "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(properties or {}),
        }
        self._process: Process | None = None
        self._files = SimulatedFiles(self.disk)
        # The volume is mounted there: the directory itself was not made by the broker.
        self._files.mkdirs("/data")
        self._files.sync_dir("/")
        self._broker: Broker | None = None

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
        self.disk.now_ms = SimulatedEnvironment(self._loop).wall_clock_ms()
        with on_host(self.host) as self._process:
            self._files = SimulatedFiles(self.disk)
            environment = SimulatedEnvironment(self._loop, f"{self.host}/{self.starts}")
            world = World(environment, self._files, StreamNetwork())
            self._broker = Broker(read_config(self._properties, self.host), world)
            await self._broker.start()

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

    def cut_power(self) -> None:
        """End the process at once; of what was not synced, chance decides."""
        self._end(Survival.BY_CHANCE)

    def _end(self, survival: Survival) -> None:
        assert self._process is not None
        self._files.is_alive = False
        self._network.kill(self._process)
        self.disk.lose_power(survival, self._loop.random)
        self._process = None
