"""A tiered broker with Kafka's own flush settings that loses its power at any moment.

Nothing flushes on append here, so a loss of power takes acknowledged records along: those that were
neither on the disk for good nor readable from the tier. All others must be there after every start,
and no object may go that holds the only copy of one. The tier's metadata is believed as far as it
is on the disk for good, since that alone is what the next start finds.

The power goes between two steps of the broker, or in the midst of one, at an operation of the disk.
"""

import asyncio

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.manager.log_manager import LogManager
from tierlog.tests.simulation.disk import Survival
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import on_host
from tierlog.tests.simulation.object_store import Weather
from tierlog.tests.simulation.tier_records import Promises
from tierlog.tests.simulation.tier_story import PARTITION, PROPERTIES, Story, Troubles
from tierlog.tests.simulation.tier_truth import TierTruth

DEFAULT_FLUSHES = {
    name: value
    for name, value in PROPERTIES.items()
    if not name.startswith("log.flush.interval.messages")
} | {
    # Else each start makes indexes of ten megabytes on a disk that is in memory.
    "log.index.size.max.bytes": "65536"
}
SURVIVALS = (Survival.BY_CHANCE, Survival.BY_CHANCE, Survival.NAMES, Survival.NOTHING)
_FORGOTTEN = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
"""What a producer is told whose last batches the power has taken."""


class PowerCuts(Story):
    """See the module."""

    def __init__(self, loop: SimulatedLoop, troubles: Troubles) -> None:
        super().__init__(loop, troubles, DEFAULT_FLUSHES)
        self.cuts = 0
        self.deleted: list[Promises] = []
        self.truth = TierTruth(self.broker, self.store, durable=True)
        self.broker.on_recovery = self._on_recovery
        self.broker.disk.when_power_fails = self._kill

    def check(self) -> None:
        super().check()
        for life in self.lives:
            log = self.truth.log(life.partition)
            if log is not None:
                _see_what_is_safe(life, log)

    def _on_recovery(self, logs: LogManager) -> None:
        """Before a client sees it: which records has the power taken?

        A log that was never flushed may be gone altogether, or have forgotten whose it is.
        """
        if not self.lives or self.life in self.deleted:
            return
        log, topic_id = logs.get_log(PARTITION), self.life.partition.topic_id
        is_here = log is not None and log.topic_id in (topic_id, ZERO_UUID)
        try:
            self.life.lose_from(log.log_end_offset if log is not None and is_here else 0)
        except AssertionError as failure:
            self.failures.append(failure)

    def _kill(self) -> None:
        if not self.broker.is_running:
            return
        if self.truth.logs is not None:
            try:
                self.check()
            except AssertionError as failure:
                self.failures.append(failure)
        self.cuts += 1
        self.broker.cut_power(self.chance.choice(SURVIVALS))

    async def make_trouble(self) -> None:
        """Let the weather change and the power go, until cancelled."""
        chance, disk = self.chance, self.broker.disk
        while True:
            self.store.weather = Weather(
                chance.choice(self.troubles.weathers), chance.choice((0.01, 0.2, 2.0))
            )
            if chance.random() < 0.5:
                disk.power_fails_at = disk.operations + chance.randint(1, chance.choice((9, 300)))
            await asyncio.sleep(chance.choice((0.2, 1, 5, 20)) * chance.random())
            if chance.random() < 0.7:
                self._kill()
            self.require_no_failure()
            await self._revive(may_die=True)

    async def calm(self) -> None:
        self.broker.disk.power_fails_at = None
        if not self.cuts:
            # Its clients were done before the first trouble came.
            self._kill()
        await super().calm()
        with on_host("client"):
            # A log without any record has no history to judge by what lies below its start.
            await self.produce()

    async def delete_topic(self) -> None:
        """Delete the topic; from the request on it may be gone."""
        self.deleted.append(self.life)
        await super().delete_topic()

    async def produce(self) -> None:
        """Send some records; a producer that the broker has forgotten gives up."""
        try:
            await super().produce()
        except KafkaError as error:
            if error.code not in _FORGOTTEN:
                raise


def _see_what_is_safe(life: Promises, log: UnifiedLog) -> None:
    life.safe_end = max(life.safe_end, log.recovery_point, log.highest_remote_offset + 1)
