"""Members of a consumer group: what they have committed stays, and nothing below it was skipped."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from tierlog.clients.consumer.consumer import Consumer
from tierlog.clients.consumer.group import GroupConfig
from tierlog.clients.errors import KafkaError
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests.simulation.cluster_clients import Promises
from tierlog.tests.simulation.cluster_member import BOOTSTRAP
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop

GROUP = "readers"
PARTITION = TopicPartition("orders", 0)
TIMEOUT_MS = 2500


class LedLog(NamedTuple):
    """The log of the group's coordinator at a moment."""

    leader_id: int
    leader_epoch: int
    end: int
    high_watermark: int


def _ignore(_: TopicPartition, __: int) -> None:
    """What is done about a record as long as nobody checks it."""


def _nowhere() -> LedLog | None:
    return None


@dataclass(slots=True)
class GroupTruth:
    """What the members of a group have seen and committed together."""

    seen: dict[int, bytes] = field(default_factory=dict[int, bytes])
    check_read: Callable[[TopicPartition, int], None] = _ignore
    committed: int = 0
    """The highest offset of which a commit was acknowledged."""
    coordinator_log: Callable[[], LedLog | None] = _nowhere
    """The log that commits go to, if its leader can be asked."""

    def check_acknowledged(self, before: LedLog | None) -> None:
        """What was written since `before` and is acknowledged is below the high watermark."""
        now = self.coordinator_log()
        if before and now and before[:2] == now[:2]:
            assert now.high_watermark > before.end, (
                f"a commit above {before.end} was acknowledged at {now}"
            )


class GroupReader:
    """A member of the group, which leaves and comes back now and then."""

    def __init__(
        self, loop: SimulatedLoop, name: str, truth: GroupTruth, promises: Promises
    ) -> None:
        self.is_over = False
        self.chance = Random(f"{loop.seed}/{name}")
        self._name = name
        self._truth = truth
        self._promises = promises
        self._environment = SimulatedEnvironment(loop, name)

    async def run(self) -> None:
        """Read and commit until `is_over`."""
        while not self.is_over:
            try:
                await self._live()
            except KafkaError as error:
                self._promises.counts[f"reader {error.code.name}"] += 1
                await asyncio.sleep(self.chance.uniform(0, 0.5))

    async def _live(self) -> None:
        reader = Consumer(
            BOOTSTRAP,
            group=GroupConfig(GROUP, session_timeout_ms=6000, heartbeat_interval_ms=1500),
            auto_offset_reset="earliest",
            request_timeout_ms=TIMEOUT_MS,
            default_api_timeout_ms=10_000,
            environment=self._environment,
        )
        truth = self._truth
        polls = self.chance.randrange(4, 40)
        async with reader:
            reader.subscribe([PARTITION.topic])
            while polls and not self.is_over:
                polls -= 1
                records = await reader.poll(timeout_ms=500)
                for record in records:
                    value = record.value or b""
                    truth.check_read(PARTITION, record.offset)
                    before = truth.seen.setdefault(record.offset, value)
                    assert before == value, (
                        f"{self._name} reads {value!r} at {record.offset}, where {before!r} was"
                    )
                if not records:
                    continue
                end = records[-1].offset + 1
                gap = [offset for offset in range(end) if offset not in truth.seen]
                assert not gap, f"{self._name} has come to {end}, and nobody has read {gap[:3]}"
                if self.chance.random() < 0.6:
                    floor, led = truth.committed, truth.coordinator_log()
                    await reader.commit({PARTITION: end})
                    truth.check_acknowledged(led)
                    truth.committed = max(truth.committed, end)
                    self._promises.counts["offset committed"] += 1
                    await self._check_committed(reader, min(floor, end))

    async def _check_committed(self, reader: Consumer, floor: int) -> None:
        """Whoever coordinates, it knows of what was committed."""
        committed = (await reader.committed([PARTITION])).get(PARTITION, -1)
        assert committed >= floor, f"{floor} was committed, and the group is at {committed}"
