"""A fetch of hundreds of partitions: it is read in steps, and others have their turn in between."""

import asyncio
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import cast

import pytest

from tierlog.broker.request.large_requests import LargeRequests
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.fetch import PartitionData
from tierlog.clients.protocol.primitives import size_of
from tierlog.replication.leader.log_reader import PARTITIONS_A_STEP, LogReader
from tierlog.replication.partition.fetch_data import FetchParams, FetchPartition, FetchResults
from tierlog.tests.replication.broker_node import BrokerNode, count_waiting, values_in
from tierlog.tests.replication.node import create, delete
from tierlog.tests.simulation.loop import SimulatedLoop

MANY = 4 * PARTITIONS_A_STEP
LAST = MANY - 1
Steps = Generator[None, None, "FetchResults | asyncio.Future[FetchResults]"]


class Reader:
    """A client that fetches all partitions of topic t from offset 0."""

    def __init__(self, node: BrokerNode, max_wait_ms: int = 60_000, min_bytes: int = 1) -> None:
        self.node = node
        self.queue = LargeRequests()
        self.params = FetchParams(max_wait_ms=max_wait_ms, min_bytes=min_bytes)
        self.asked: list[FetchPartition] = [
            node.asked("t", 0, partition=number) for number in range(MANY)
        ]

    def steps(self) -> Steps:
        fetch = self.node.replicas.leader_fetch
        return fetch.fetch_in_steps(self.params, self.asked, self.queue.submit)

    async def fetch(self, steps: Steps | None = None) -> list[PartitionData]:
        """The results of a fetch, or of one that some steps have been done of."""
        done = await self.queue.submit(steps or self.steps())
        outcome = cast("FetchResults | asyncio.Future[FetchResults]", done)
        return await outcome if isinstance(outcome, asyncio.Future) else outcome

    @property
    def waiting(self) -> int:
        return count_waiting(self.node.replicas)["Fetch"]


async def reader_of_many(node: BrokerNode) -> Reader:
    """A reader of a topic of many partitions, once all of them have their logs."""
    await create(node.controller, "t", partitions=MANY)
    for _ in range(MANY):
        await asyncio.sleep(0)
    assert len(node.replicas.partitions) == MANY
    return Reader(node)


def some_steps(steps: Steps, count: int) -> None:
    for _ in range(count):
        next(steps)


async def test_what_it_reads_is_what_one_read_would_have(node: BrokerNode) -> None:
    reader = await reader_of_many(node)
    for number in (0, 7, LAST):
        reader.node.append("t", b"%d" % number, partition=number)
    at_once = reader.node.fetch_now(*reader.asked)
    in_steps = await reader.fetch()
    assert [values_in(each) for each in in_steps] == [values_in(each) for each in at_once]
    assert [each.high_watermark for each in in_steps] == [each.high_watermark for each in at_once]


async def test_the_limit_of_the_request_counts_over_the_steps(node: BrokerNode) -> None:
    reader = await reader_of_many(node)
    for number in range(MANY):
        reader.node.append("t", b"x" * 100, partition=number)
    reader.params = replace(reader.params, max_bytes=8_000)
    one_by_one = reader.node.fetch_now(*reader.asked, max_bytes=8_000)
    in_steps = await reader.fetch()
    assert [bool(values_in(each)) for each in in_steps] == [
        bool(values_in(each)) for each in one_by_one
    ]
    assert sum(bool(values_in(each)) for each in in_steps) > PARTITIONS_A_STEP


async def test_it_waits_and_an_append_ends_the_wait(node: BrokerNode, loop: SimulatedLoop) -> None:
    reader = await reader_of_many(node)
    fetching = asyncio.ensure_future(reader.fetch())
    await asyncio.sleep(1)
    assert reader.waiting == 1
    assert not fetching.done()
    reader.node.append("t", b"x", partition=LAST)
    # The append has not read all partitions for it.
    assert not fetching.done()
    begin = loop.time()
    results = await fetching
    assert loop.time() - begin < 0.01
    assert values_in(results[LAST]) == [b"x"]
    assert reader.waiting == 0


async def test_bytes_of_several_partitions_count_together(node: BrokerNode) -> None:
    reader = await reader_of_many(node)
    reader.params = replace(reader.params, min_bytes=300)
    fetching = asyncio.ensure_future(reader.fetch())
    await asyncio.sleep(1)
    reader.node.append("t", b"x" * 150)
    await asyncio.sleep(1)
    assert not fetching.done()
    reader.node.append("t", b"y" * 150, partition=LAST)
    results = await fetching
    assert [values_in(results[number]) for number in (0, LAST)] == [[b"x" * 150], [b"y" * 150]]


def append_to_first(node: BrokerNode) -> None:
    node.append("t", b"first")


def append_to_last(node: BrokerNode) -> None:
    node.append("t", b"last", partition=LAST)


@pytest.mark.parametrize("happens", [append_to_first, append_to_last])
@pytest.mark.parametrize("after", range(1, 2 * MANY // PARTITIONS_A_STEP + 1))
async def test_what_happens_in_a_pause_is_not_missed(
    node: BrokerNode, happens: Callable[[BrokerNode], None], after: int
) -> None:
    reader = await reader_of_many(node)
    steps = reader.steps()
    some_steps(steps, after)
    happens(reader.node)
    results = await reader.fetch(steps)
    read = [value for number in (0, LAST) for value in values_in(results[number])]
    assert read == [b"first" if happens is append_to_first else b"last"]
    assert asyncio.get_running_loop().time() < 10


@pytest.mark.parametrize("after", range(1, 2 * MANY // PARTITIONS_A_STEP + 1))
async def test_a_topic_that_goes_in_a_pause_is_an_error_at_once(
    node: BrokerNode, after: int
) -> None:
    reader = await reader_of_many(node)
    steps = reader.steps()
    some_steps(steps, after)
    await delete(reader.node.controller, "t")
    results = await reader.fetch(steps)
    assert results[LAST].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert reader.waiting == 0


async def test_a_client_that_goes_leaves_nothing_behind(node: BrokerNode) -> None:
    reader = await reader_of_many(node)
    looking = reader.steps()
    some_steps(looking, MANY // PARTITIONS_A_STEP + 1)
    assert reader.waiting == 1
    looking.close()
    await asyncio.sleep(0)
    assert reader.waiting == 0
    fetching = asyncio.ensure_future(reader.fetch())
    await asyncio.sleep(1)
    assert reader.waiting == 1
    fetching.cancel()
    await asyncio.sleep(0.1)
    assert reader.waiting == 0


async def test_one_that_finds_nothing_is_answered_after_max_wait(
    node: BrokerNode, loop: SimulatedLoop
) -> None:
    reader = await reader_of_many(node)
    reader.params = replace(reader.params, max_wait_ms=700)
    begin = loop.time()
    results = await reader.fetch()
    assert [values_in(each) for each in results] == [[]] * MANY
    assert 0.7 <= loop.time() - begin < 0.75


async def test_stopping_answers_it(node: BrokerNode) -> None:
    reader = await reader_of_many(node)
    fetching = asyncio.ensure_future(reader.fetch())
    await asyncio.sleep(1)
    await reader.node.replicas.leader_fetch.stop()
    assert len(await fetching) == MANY


@pytest.mark.parametrize("after", range(1, 2 * MANY // PARTITIONS_A_STEP + 1))
async def test_a_topic_that_is_made_again_in_a_pause_is_another(
    node: BrokerNode, after: int
) -> None:
    reader = await reader_of_many(node)
    steps = reader.steps()
    some_steps(steps, after)
    await delete(reader.node.controller, "t")
    await reader_of_many(node)
    node.append("t", b"of the new topic")
    reader.node.append("t", b"of the new topic", partition=LAST)
    results = await reader.fetch(steps)
    assert not any(each.records and size_of(each.records) for each in results)
    # One that waits already is answered when the topic goes.
    is_read_again = after > MANY // PARTITIONS_A_STEP
    assert results[LAST].error_code == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_read_again else ErrorCode.INCONSISTENT_TOPIC_ID
    )
    assert reader.waiting == 0


@pytest.mark.parametrize("after", range(1, 2 * MANY // PARTITIONS_A_STEP + 1))
async def test_a_failure_in_a_step_leaves_nothing_behind(
    node: BrokerNode, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    reader = await reader_of_many(node)
    steps = reader.steps()
    some_steps(steps, after)

    def fail(*_: object) -> None:
        raise OSError("a failing disk")

    monkeypatch.setattr(LogReader, "partition_for", fail)
    with pytest.raises(OSError, match="a failing disk"):
        await reader.fetch(steps)
    await asyncio.sleep(0)
    assert reader.waiting == 0
