"""What goes wrong with one partition of a coordinator stops neither its sweep nor the others."""

import asyncio
from collections.abc import Callable

import pytest

from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.coordinator.group.group_coordinator import GroupCoordinator
from tierlog.coordinator.group.group_shard import GroupShard
from tierlog.coordinator.group_config import GroupCoordinatorConfig
from tierlog.coordinator.transaction.transaction_config import TransactionConfig
from tierlog.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from tierlog.coordinator.transaction.transaction_shard import TransactionShard
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop

from ..memory_offsets_log import MemoryOffsetsLog
from .transaction_partitions import Partitions

SWEEPS = 3
GROUPS, TRANSACTIONS = GroupCoordinatorConfig(), TransactionConfig()

Shard = GroupShard | TransactionShard
Coordinator = GroupCoordinator | TransactionCoordinator


def groups(environment: SimulatedEnvironment, supervisor: Supervisor) -> Coordinator:
    return GroupCoordinator(GROUPS, environment, MemoryOffsetsLog(), supervisor)


def transactions(environment: SimulatedEnvironment, supervisor: Supervisor) -> Coordinator:
    log = MemoryOffsetsLog()
    return TransactionCoordinator(
        TRANSACTIONS, environment, log, Partitions(), supervisor, take_producer_id=lambda: None
    )


@pytest.mark.parametrize(
    ("make", "shard", "sweep", "interval_ms", "name"),
    [
        pytest.param(
            groups,
            GroupShard,
            "expired",
            GROUPS.offsets_retention_check_interval_ms,
            "offset expiry",
            id="offsets expire",
        ),
        pytest.param(
            transactions,
            TransactionShard,
            "timed_out",
            TRANSACTIONS.abort_interval_ms,
            "transaction timeouts",
            id="transactions time out",
        ),
    ],
)
async def test_it_goes_on_in_other_partitions_and_again_with_the_next_sweep(
    loop: SimulatedLoop,
    make: Callable[[SimulatedEnvironment, Supervisor], Coordinator],
    shard: type[Shard],
    sweep: str,
    interval_ms: int,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    swept: list[int] = []
    sound: Callable[..., object] = getattr(shard, sweep)

    def failing(self: Shard, *arguments: object) -> object:
        swept.append(self.partition)
        if self.partition == 0:
            raise ZeroDivisionError("a fault of ours")
        return sound(self, *arguments)

    monkeypatch.setattr(shard, sweep, failing)
    environment = SimulatedEnvironment(loop)
    supervisor = Supervisor(environment.random)
    coordinator = make(environment, supervisor)
    coordinator.start()
    for partition in (0, 1):
        coordinator.on_elected(partition, 0)
    await asyncio.sleep(SWEEPS * interval_ms / 1_000 + 1)
    assert swept == [0, 1] * SWEEPS
    assert supervisor.failures == {name: SWEEPS}
    coordinator.stop()
