"""What goes wrong with one partition of a coordinator stops neither its sweep nor the others."""

import asyncio

import pytest

from tierlog.broker.coordinator.group import GroupCoordinator
from tierlog.broker.coordinator.group_config import GroupCoordinatorConfig
from tierlog.broker.coordinator.group_shard import Forgotten, GroupShard
from tierlog.broker.coordinator.transaction import TransactionCoordinator
from tierlog.broker.coordinator.transaction_config import TransactionConfig
from tierlog.broker.coordinator.transaction_metadata import Transaction
from tierlog.broker.coordinator.transaction_shard import TransactionShard
from tierlog.clients.supervisor import Supervisor
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop, simulate

from .memory_offsets_log import MemoryOffsetsLog
from .test_transaction_coordinator import Partitions

SWEEPS = 3


def test_offsets_expire_in_other_partitions_and_again_with_the_next_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    swept: list[int] = []
    expired = GroupShard.expired

    def failing(self: GroupShard, now_ms: int) -> Forgotten:
        swept.append(self.partition)
        if self.partition == 0:
            raise ZeroDivisionError("a fault of ours")
        return expired(self, now_ms)

    monkeypatch.setattr(GroupShard, "expired", failing)

    async def story(loop: SimulatedLoop) -> None:
        environment = SimulatedEnvironment(loop)
        supervisor = Supervisor(environment.random)
        config = GroupCoordinatorConfig()
        log = MemoryOffsetsLog()
        coordinator = GroupCoordinator(config, environment, log, supervisor)
        coordinator.start()
        for partition in (0, 1):
            coordinator.on_elected(partition, 0)
        await asyncio.sleep(SWEEPS * config.offsets_retention_check_interval_ms / 1_000 + 1)
        assert swept == [0, 1] * SWEEPS
        assert supervisor.failures == {"offset expiry": SWEEPS}
        coordinator.stop()

    simulate(story)


def test_transactions_time_out_in_other_partitions_and_again_with_the_next_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    swept: list[int] = []

    def failing(self: TransactionShard, now_ms: int) -> list[Transaction]:
        swept.append(self.partition)
        if self.partition == 0:
            raise ZeroDivisionError("a fault of ours")
        return []

    monkeypatch.setattr(TransactionShard, "timed_out", failing)

    async def story(loop: SimulatedLoop) -> None:
        environment = SimulatedEnvironment(loop)
        supervisor = Supervisor(environment.random)
        config = TransactionConfig()
        coordinator = TransactionCoordinator(
            config, environment, MemoryOffsetsLog(), Partitions(), supervisor
        )
        coordinator.start()
        for partition in (0, 1):
            coordinator.on_elected(partition, 0)
        await asyncio.sleep(SWEEPS * config.abort_interval_ms / 1_000 + 1)
        assert swept == [0, 1] * SWEEPS
        assert supervisor.failures == {"transaction timeouts": SWEEPS}
        coordinator.stop()

    simulate(story)
