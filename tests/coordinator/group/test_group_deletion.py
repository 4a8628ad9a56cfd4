"""What administrators ask of the coordinator: deletions are told when the log has them."""

from tierlog.clients.errors import ErrorCode
from tierlog.tests.simulation.loop import SimulatedLoop

from .coordinated_groups import GROUP, PARTITION, Broker, later


async def test_a_deletion_is_acknowledged_when_the_log_has_it(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    await broker.commit(1)
    broker.log.delay_s = 2.0
    answer = broker.coordinator.delete_group(GROUP)
    assert await broker.committed() == 1
    assert await later(answer) is ErrorCode.NONE
    assert await broker.committed() == -1
    assert broker.coordinator.describe_group(GROUP)[0] is ErrorCode.GROUP_ID_NOT_FOUND
    again = Broker(loop, broker.log)
    await again.elect(1)
    assert await again.committed() == -1
    assert again.coordinator.list_groups([], []) == (ErrorCode.NONE, [])


async def test_a_deletion_that_cannot_be_written_is_reported_and_changes_nothing(
    loop: SimulatedLoop,
) -> None:
    broker = Broker(loop)
    await broker.elect()
    await broker.commit(1)
    broker.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    failed = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await later(broker.coordinator.delete_group(GROUP)) is failed
    answer, _ = broker.coordinator.delete_offsets(GROUP, [("topic", 0)])
    assert await later(answer) is failed
    assert await broker.committed() == 1


async def test_administrators_are_sent_on_and_put_off_like_everybody(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    coordinator = broker.coordinator
    elsewhere = ErrorCode.NOT_COORDINATOR
    assert coordinator.list_groups([], []) == (ErrorCode.NONE, [])
    assert coordinator.describe_group(GROUP)[0] is elsewhere
    assert coordinator.delete_group(GROUP) is elsewhere
    assert coordinator.delete_offsets(GROUP, []) == (elsewhere, frozenset())
    await broker.elect()
    await broker.commit(1)
    for _ in range(20):
        await broker.commit(2)
    coordinator.on_elected(PARTITION, 5)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert coordinator.list_groups([], []) == (loading, [])
    assert coordinator.describe_group(GROUP)[0] is loading
    assert coordinator.delete_group(GROUP) is loading
