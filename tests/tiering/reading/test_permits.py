"""How many are at work at once, while the bound moves and those who wait give up."""

import asyncio
from functools import partial

import pytest
from hypothesis import given, strategies as st

from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.permits import Permits
from tierlog.tiering.reading.reader_pool import NoTurnError, ReaderPool

pytestmark = pytest.mark.usefixtures("loop")


class Workshop:
    """Counts who is at work."""

    def __init__(self, limit: int) -> None:
        self.permits = Permits(limit)
        self.at_work: list[int] = []
        self.done: list[int] = []

    async def work(self, worker: int, seconds: float) -> None:
        async with self.permits:
            self.at_work.append(worker)
            try:
                await asyncio.sleep(seconds)
            finally:
                self.at_work.remove(worker)
            self.done.append(worker)


async def test_a_higher_bound_lets_in_at_once_and_a_lower_one_interrupts_nobody() -> None:
    shop = Workshop(1)
    async with asyncio.TaskGroup() as tasks:
        for worker in range(6):
            tasks.create_task(shop.work(worker, 10))
        await asyncio.sleep(1)
        assert shop.at_work == [0]
        shop.permits.limit = 3
        await asyncio.sleep(1)
        assert shop.at_work == [0, 1, 2]
        shop.permits.limit = 1
        await asyncio.sleep(8.5)
        assert shop.at_work == [1, 2]
        await asyncio.sleep(1)
        assert shop.at_work == [3]
    assert (shop.done[0], set(shop.done[1:3]), shop.done[3:]) == (0, {1, 2}, [3, 4, 5])


async def test_who_gives_up_leaves_the_place_to_the_next() -> None:
    shop = Workshop(1)
    workers = [asyncio.ensure_future(shop.work(worker, 10)) for worker in range(4)]
    await asyncio.sleep(1)
    workers[1].cancel()
    workers[0].cancel()
    await asyncio.sleep(1)
    assert shop.at_work == [2]
    await asyncio.wait(workers)
    assert shop.done == [2, 3]
    assert shop.permits.limit == 1


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5), st.integers(0, 4)), max_size=20))
def test_nobody_is_forgotten_and_never_are_there_too_many(
    stories: list[tuple[float, float, int]],
) -> None:
    async def story(_: SimulatedLoop) -> None:
        shop = Workshop(2)

        async def one(worker: int, wait: float, seconds: float, limit: int) -> None:
            await asyncio.sleep(wait)
            if limit and worker % 3 == 0:
                shop.permits.limit = max(limit, shop.permits.limit)
            task = asyncio.ensure_future(shop.work(worker, seconds))
            assert len(shop.at_work) <= shop.permits.limit
            if not limit:
                await asyncio.sleep(wait)
                task.cancel()
            await asyncio.wait([task])

        async with asyncio.TaskGroup() as tasks:
            for worker, (wait, seconds, limit) in enumerate(stories):
                tasks.create_task(one(worker, wait, seconds, limit))
        assert not shop.at_work
        async with shop.permits:
            pass
        kept = [n for n, (_, _, limit) in enumerate(stories) if limit]
        assert set(kept) <= set(shop.done)

    simulate(story)


async def test_more_readers_are_let_in_as_their_number_grows() -> None:
    pool = ReaderPool(1, 1)

    async def read() -> int:
        await asyncio.sleep(10)
        return 1

    reads = [asyncio.ensure_future(pool.run(read, 60)) for _ in range(4)]
    await asyncio.sleep(1)
    assert pool.queue_size == 1, "those before the door do not count"
    pool.threads = 3
    await asyncio.sleep(1)
    assert pool.queue_size == 1
    assert [await each for each in reads] == [1, 1, 1, 1]
    assert pool.queue_size == 0


async def test_a_read_that_finds_no_turn_in_time_leaves_and_is_never_begun(
    loop: SimulatedLoop,
) -> None:
    pool = ReaderPool(2, 1)
    begun: list[int] = []
    store = asyncio.Event()

    async def read(number: int) -> int:
        begun.append(number)
        await store.wait()
        return number

    reads = [asyncio.ensure_future(pool.run(partial(read, n), 0.5)) for n in range(50)]
    await asyncio.sleep(1)
    assert begun == [0, 1]
    for each in reads[2:]:
        with pytest.raises(NoTurnError):
            await each
    assert (pool.queue_size, pool.idle_share) == (0, 0)
    store.set()
    assert await pool.run(partial(read, 50), 0.5) == 50
    assert (begun, pool.idle_share) == ([0, 1, 50], 1)
    assert [await each for each in reads[:2]] == [0, 1]


def test_threads_are_exchanged_without_losing_what_was_handed_in() -> None:
    async def story() -> list[int]:
        pool = ThreadedPool(1, "test")
        before = [asyncio.ensure_future(pool.run(partial(int, n))) for n in range(3)]
        await asyncio.sleep(0)
        pool.resize(3)
        after = [await pool.run(partial(int, n)) for n in range(3, 6)]
        done = [await each for each in before] + after
        pool.stop()
        return done

    assert asyncio.run(story()) == [0, 1, 2, 3, 4, 5]
