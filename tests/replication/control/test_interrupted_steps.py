"""A controller ends in the middle of a step that takes several parts: the next one goes on."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tierlog.replication.control.brokers import broker_transitions
from tierlog.replication.control.brokers.broker_states import Heartbeat, HeartbeatAnswer
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.loop import SimulatedLoop, simulate

from .cluster_story import broker_data
from .many_partitions import BROKERS, PARTITIONS_A_TOPIC, Node, running

PART = 20
Story = Callable[[Node], Awaitable[None]]


@pytest.fixture(autouse=True)
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_transitions, "RECORDS_PER_PART", PART)
    monkeypatch.setattr(broker_transitions, "FOR_A_PART", PART + 1)


def is_fenced(node: Node, broker_id: int) -> bool:
    return node.image.brokers[broker_id].fenced


def led_by(node: Node, broker_id: int) -> int:
    return sum(partition.leader == broker_id for partition in node.partitions)


async def shut_down(node: Node, broker_id: int) -> HeartbeatAnswer:
    """A heartbeat of a broker that wants to stop."""
    epoch = node.image.brokers[broker_id].epoch
    heartbeat = Heartbeat(node.log.end_offset - 1, wants_shutdown=True)
    return await node.control.heartbeat(broker_id, epoch, heartbeat)


async def begin(node: Node, step: Awaitable[object], broker_id: int) -> None:
    """Take a step, until the first of its parts has changed what a broker leads."""
    before, is_begun = led_by(node, broker_id), asyncio.Event()

    def note(*_: object) -> None:
        if led_by(node, broker_id) != before:
            is_begun.set()

    node.controller.subscribe(note)
    taking = asyncio.ensure_future(step)
    async with asyncio.timeout(60):
        await is_begun.wait()
    taking.cancel()


def tell(first: Story, then: Story) -> None:
    """Run two stories in a cluster of three brokers, each with a controller of its own."""

    async def run(loop: SimulatedLoop) -> None:
        disk = SimulatedDisk()
        before = Node(loop, disk)
        async with running(before):
            for broker_id in BROKERS:
                await before.join(broker_id)
            await before.create(PARTITIONS_A_TOPIC)
            await first(before)
        after = Node(loop, disk)
        async with running(after):
            await then(after)

    simulate(run)


def test_a_broker_that_is_unfenced_leads_all_that_it_can() -> None:
    async def first(node: Node) -> None:
        await node.keep_alive(2, for_s=20)
        assert led_by(node, 2) == PARTITIONS_A_TOPIC
        await asyncio.sleep(20)
        assert led_by(node, -1) == PARTITIONS_A_TOPIC
        await node.control.register_broker(broker_data(2, incarnation=2))
        await begin(node, node.beat(2), 2)

    async def then(node: Node) -> None:
        assert node.image.brokers[2].is_active
        assert 0 < led_by(node, 2) < PARTITIONS_A_TOPIC
        await node.keep_alive(2, for_s=10)
        assert led_by(node, 2) == PARTITIONS_A_TOPIC

    tell(first, then)


def test_a_broker_that_shuts_down_may_go() -> None:
    async def first(node: Node) -> None:
        await begin(node, shut_down(node, 2), 2)

    async def then(node: Node) -> None:
        assert led_by(node, 2)
        for _ in range(5):
            await node.beat(1, 3)
            await shut_down(node, 2)
        assert led_by(node, 2) == 0
        assert is_fenced(node, 2)

    tell(first, then)


def test_a_broker_that_stays_silent_is_fenced() -> None:
    async def first(node: Node) -> None:
        await begin(node, node.keep_alive(1, 3, for_s=20), 2)

    async def then(node: Node) -> None:
        assert not is_fenced(node, 2)
        assert led_by(node, 2)
        await node.keep_alive(1, 3, for_s=20)
        assert is_fenced(node, 2)
        assert led_by(node, 2) == 0

    tell(first, then)


def test_a_broker_that_starts_again_leads_nothing_yet() -> None:
    async def first(node: Node) -> None:
        await node.keep_alive(1, 3, for_s=9)
        await begin(node, node.control.register_broker(broker_data(2, incarnation=2)), 2)

    async def then(node: Node) -> None:
        assert led_by(node, 2)
        await node.keep_alive(1, 3, for_s=20)
        await node.join(2, incarnation=2)
        assert led_by(node, 2) == 0

    tell(first, then)


@pytest.mark.parametrize("starts_again", [True, False])
async def test_a_broker_that_returns_while_it_is_fenced_is_fenced_before_it_leads(
    loop: SimulatedLoop, starts_again: bool
) -> None:
    node = Node(loop, SimulatedDisk())
    async with running(node):
        for broker_id in BROKERS:
            await node.join(broker_id)
        await node.create(PARTITIONS_A_TOPIC)
        returned: list[asyncio.Task[None]] = []

        async def come_back() -> None:
            if starts_again:
                await node.control.register_broker(broker_data(2, incarnation=2))
            await node.beat(2)

        def note(*_: object) -> None:
            if not returned and not is_fenced(node, 2) and led_by(node, 2) == led - PART:
                returned.append(asyncio.ensure_future(come_back()))

        led = led_by(node, 2)
        node.controller.subscribe(note)
        await node.keep_alive(1, 3, for_s=12)
        assert returned
        await returned[0]
        await node.keep_alive(*BROKERS, for_s=4)
        assert node.image.brokers[2].is_active
        assert led_by(node, 2) == 0
        assert led_by(node, -1) == 0
        assert not any(2 in partition.isr for partition in node.partitions)
