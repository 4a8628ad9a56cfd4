"""One log that is compacted, expired, cut by DeleteRecords and copied to the tier, all at once.

It begins as `compact,delete`. In the midst of everything it becomes a tiered log, which Kafka has
as `delete` alone: from then on its segments, compacted or not, are copied. Beside that it expires,
clients delete records, and the power goes, as in `tier_power_cuts.py`.

Each record that was safe can be read in the end, or it has gone for a reason: a younger record of
its key is there, a client deleted it, or retention did.
"""

import asyncio

from tierlog.clients.admin import ConfigResourceType
from tierlog.clients.consumer.completed_fetch import ConsumerRecord
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.network.network import NetworkClient
from tierlog.clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import on_host
from tierlog.tests.simulation.tier_power_cuts import PowerCuts
from tierlog.tests.simulation.tier_records import Promises
from tierlog.tests.simulation.tier_story import TOPIC, Troubles

_KEYS = 5
_COMPACTED = {
    "remote.storage.enable": "false",
    "cleanup.policy": "compact,delete",
    "min.cleanable.dirty.ratio": "0.01",
}
_TIERED = {"cleanup.policy": "delete", "remote.storage.enable": "true"}
_CLEANER = {
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.dedupe.buffer.size": "2097152",
    # Slow enough that much happens while a segment is cleaned.
    "log.cleaner.io.max.bytes.per.second": "5000",
}


class KeyedPromises(Promises):
    """Records with keys: one may be gone because a younger one of its key is there."""

    def key_of(self, value: bytes) -> bytes:
        return b"key %d" % (self.number_of(value) % _KEYS)

    def may_be_superseded(self, offset: int) -> bool:
        return self.number_of(self.acknowledged[offset]) + _KEYS < self.sent

    def check_read(self, found: list[ConsumerRecord], start: int) -> None:
        """All of the log from `start` to its end was read."""
        youngest: dict[bytes | None, int] = {}
        numbers: list[int] = []
        for record in found:
            value = record.value or b""
            assert record.offset > max(youngest.values(), default=start - 1), "out of order"
            assert record.key == self.key_of(value)
            at = record.offset
            assert self.acknowledged.get(at, value) == value, f"another record at {at}"
            youngest[record.key] = at
            numbers.append(self.number_of(value))
        assert numbers == sorted(set(numbers)), f"twice or out of order: {numbers}"
        there = {record.offset for record in found}
        for offset, value in self.acknowledged.items():
            if offset >= start and offset not in there:
                superseded = youngest.get(self.key_of(value), -1)
                assert superseded > offset, f"{value!r} at {offset} is gone"


class OneLog(PowerCuts):
    """See the module."""

    promises = KeyedPromises

    def __init__(self, loop: SimulatedLoop, troubles: Troubles) -> None:
        super().__init__(loop, troubles)
        self.broker.properties |= _CLEANER
        self.is_tiered = False

    def topic_settings(self) -> dict[str, str]:
        return super().topic_settings() | _COMPACTED

    async def become_tiered(self) -> None:
        """Let the log be copied from now on, and compacted no more."""
        changes = [
            AlterableConfig(name=name, config_operation=0, value=value)
            for name, value in _TIERED.items()
        ]
        resource = AlterConfigsResource(
            resource_type=ConfigResourceType.TOPIC, resource_name=TOPIC, configs=changes
        )

        async def attempt() -> None:
            network = NetworkClient(self.broker.bootstrap, self._environment())
            try:
                answer = await network.request_any(
                    IncrementalAlterConfigsRequest(resources=[resource], validate_only=False),
                    IncrementalAlterConfigsResponse,
                )
            finally:
                await network.close()
            (result,) = answer.responses
            if result.error_code:
                raise KafkaError(ErrorCode(result.error_code), result.error_message or "")

        await self._insist(attempt)
        self.is_tiered = True

    async def act(self) -> None:
        if not self.is_tiered and self.chance.random() < 0.12:
            await self.become_tiered()
        else:
            await super().act()

    async def calm(self) -> None:
        await super().calm()
        if not self.is_tiered:
            # Some of it is compacted by then.
            await asyncio.sleep(self.chance.uniform(0, 5))
            with on_host("client"):
                await self.read_all()
                await self.become_tiered()
