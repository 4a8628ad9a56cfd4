"""A process's clock and chance, driven by the loop and its seed."""

import random

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.runtime.environment import starts_with_dash, version_4_uuid
from tierlog.tests.simulation.loop import SimulatedLoop

EPOCH_MS = 1_750_000_000_000


class SimulatedEnvironment:
    """`Environment` in virtual time. Each process has its own, told apart by `name`.

    `clock_skew_ms` is how far this process's wall clock is ahead of the true one; it may be set at
    any moment, as an administrator might.
    """

    def __init__(self, loop: SimulatedLoop, name: str = "", clock_skew_ms: int = 0) -> None:
        self.clock_skew_ms = clock_skew_ms
        self._loop = loop
        # A string seeds by its own bytes, not by its hash, which differs between runs.
        self._random = random.Random(f"{loop.seed}/{name}")

    @property
    def random(self) -> random.Random:
        return self._random

    def wall_clock_ms(self) -> int:
        return EPOCH_MS + int(self._loop.time() * 1000) + self.clock_skew_ms

    def random_uuid(self) -> Uuid:
        while True:
            uuid = version_4_uuid(self._random.randbytes(16))
            if not starts_with_dash(uuid):
                return uuid
