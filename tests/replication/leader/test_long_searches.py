"""Many searches for a timestamp in batches that take long to decompress: a few at a time."""

import asyncio
import tracemalloc

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.compression import CompressionType
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.leader import delayed_list_offsets
from tierlog.replication.leader.delayed_list_offsets import OffsetResults
from tierlog.replication.leader.offset_lookup import OffsetQuery
from tierlog.replication.leader.search_slots import SEARCHES_AT_ONCE, SearchSlots
from tierlog.replication.partition.append_data import AppendEntry, AppendRequest
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop

from ..broker_node import BrokerNode
from ..node import creation

TIME = 1_700_000_000_000
COUNT = 600
MIB = 1 << 20
SEARCHES = 30


async def node_with_batches(loop: SimulatedLoop) -> BrokerNode:
    """Two partitions, each with a batch of 6 MB in some kilobytes of gzip."""
    node = BrokerNode(loop, SimulatedFiles(SimulatedDisk()))
    await node.controller.create_topics(creation("t", partitions=2))
    made = [Record(0, TIME + each, b"k", bytes(10_000)) for each in range(COUNT)]
    for index in (0, 1):
        batch = memoryview(build_batch(made, compression=CompressionType.GZIP))
        entry = AppendEntry(TopicPartition("t", index), batch)
        assert not node.replicas.append_records(AppendRequest([entry]))[0].error  # type: ignore[index] # nobody follows
    return node


def search(node: BrokerNode, partition: int = 0) -> "asyncio.Future[OffsetResults]":
    query = OffsetQuery(TopicPartition("t", partition), TIME + COUNT - 1)
    found = node.replicas.list_offsets([query], FetchIsolation.HIGH_WATERMARK)
    assert isinstance(found, asyncio.Future)
    return found


async def rounds_of(found: "asyncio.Future[OffsetResults]") -> int:
    """How often the loop goes round until it is found."""
    rounds = 0
    while not found.done():
        await asyncio.sleep(0)
        rounds += 1
    return rounds


async def test_they_hold_no_more_memory_than_those_that_are_made_at_once(
    loop: SimulatedLoop,
) -> None:
    node = await node_with_batches(loop)
    tracemalloc.start()
    found = [search(node) for _ in range(SEARCHES)]
    answers = await asyncio.gather(*found)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert {each[0].offset for each in answers} == {COUNT - 1}
    # A decompressed batch grows in a second buffer.
    assert peak < SEARCHES_AT_ONCE * 2 * 8 * MIB
    await node.stop()


async def test_many_in_one_partition_do_not_hold_up_one_in_another(loop: SimulatedLoop) -> None:
    node = await node_with_batches(loop)
    many = [search(node) for _ in range(SEARCHES)]
    other = search(node, 1)
    assert (await other)[0].offset == COUNT - 1
    assert sum(each.done() for each in many) <= 2 * SEARCHES_AT_ONCE
    await node.stop()


async def test_a_search_ends_when_nobody_waits_for_it_any_more(loop: SimulatedLoop) -> None:
    node = await node_with_batches(loop)
    alone = await rounds_of(search(node))
    left = [search(node) for _ in range(SEARCHES)]
    await asyncio.sleep(0)
    for each in left:
        each.cancel()
    assert await rounds_of(search(node)) <= alone + SEARCHES
    await node.stop()


async def test_who_gives_up_its_place_takes_no_slot_along() -> None:
    slots = SearchSlots(1)
    partition = TopicPartition("t", 0)

    async def use() -> None:
        async with slots.slot(partition):
            await asyncio.sleep(0)

    first, second, third = (asyncio.ensure_future(use()) for _ in range(3))
    await asyncio.sleep(0)
    assert slots.waiting == 2
    second.cancel()
    await first
    third.cancel()
    await asyncio.wait([second, third])
    await asyncio.wait_for(use(), 1)
    assert not slots.waiting


async def test_more_searches_than_may_wait_are_refused_for_now(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delayed_list_offsets, "_SEARCHES_MAX", 3)
    node = await node_with_batches(loop)
    found = await asyncio.gather(*(search(node) for _ in range(5)))
    late = ErrorCode.REQUEST_TIMED_OUT
    assert [each[0].error for each in found] == [ErrorCode.NONE] * 3 + [late] * 2
    await node.stop()
