"""Topics are deleted in whole brokers: their tier is emptied, whatever happens meanwhile."""

import asyncio
from importlib import import_module
from typing import cast

import pytest

from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import on_host
from tierlog.tests.tiering.tiered_broker import until
from tierlog.tests.tiering.whole_broker import (
    MemoryFileSystem,
    check_all,
    consume,
    create_topic,
    produce,
    segments_in_tier,
    tiered_broker,
)

from .deleted_topics import delete_topic


def objects(name: str) -> list[str]:
    memory = cast(
        MemoryFileSystem, import_module("fsspec.implementations.memory").MemoryFileSystem()
    )
    return memory.find(f"/{name}")


@pytest.mark.scenario("2.8")
async def test_a_deleted_topic_leaves_nothing_and_one_of_its_name_is_another(
    loop: SimulatedLoop,
) -> None:
    """(KAFKA-15313, KAFKA-17020)"""
    name = "deleted-and-made-again"
    broker = tiered_broker(loop, name)
    await broker.start()
    with on_host("client"):
        await create_topic(loop, broker)
        await produce(loop, broker, 0, 40)
        await until(lambda: len(segments_in_tier(name)) > 4)
        old = set(objects(name))
        await delete_topic(loop, broker)
        await create_topic(loop, broker)
        await produce(loop, broker, 0, 30)
        await until(lambda: not old & set(objects(name)))
        await until(lambda: len(segments_in_tier(name)) > 3)
        await asyncio.sleep(10)
        check_all(await consume(loop, broker), 30)
        await delete_topic(loop, broker)
        await until(lambda: not objects(name))
    await broker.stop()


@pytest.mark.parametrize("seed", range(12))
async def test_a_broker_killed_while_a_topic_goes_removes_it_after_its_start(
    loop: SimulatedLoop, seed: int
) -> None:
    """Before the mark, between two segments, after the last: wherever the seed has it."""
    name = f"killed-remover-{seed}"
    broker = tiered_broker(loop, name)
    await broker.start()
    with on_host("client"):
        await create_topic(loop, broker)
        await produce(loop, broker, 0, 40)
        await until(lambda: len(segments_in_tier(name)) > 4)
        await delete_topic(loop, broker)
    await asyncio.sleep(loop.random.choice([0, 0, 0.001, 0.01, 0.05, 0.1]))
    broker.kill()
    await broker.start()
    await until(lambda: not objects(name), 7200)
    await asyncio.sleep(60)
    assert not objects(name)
    await broker.stop()
