"""Background tasks have an owner, a bound, and an end."""

import asyncio

import pytest

from tierlog.clients.runtime.task_owner import TaskOwner


async def wait_for_ever() -> None:
    await asyncio.get_running_loop().create_future()


async def fail() -> None:
    raise LookupError("broken")


async def test_stop_cancels_what_still_runs_and_waits_for_it() -> None:
    owner = TaskOwner(2)
    task = owner.start(wait_for_ever(), "waiter")
    await owner.stop()
    assert task.cancelled()
    assert len(owner) == 0


async def test_a_task_that_is_done_makes_room() -> None:
    owner = TaskOwner(1)
    await owner.start(asyncio.sleep(0), "first")
    await owner.start(asyncio.sleep(0), "second")
    await owner.stop()


async def test_a_task_makes_room_in_the_round_in_which_it_ends() -> None:
    """Who sees that a task is done may start the next before the owner has heard of it."""
    owner = TaskOwner(1)
    task = owner.start(asyncio.sleep(0), "first")
    while not task.done():  # noqa: ASYNC110 (the round in which it ends is what is tested)
        await asyncio.sleep(0)
    await owner.start(asyncio.sleep(0), "second")
    await owner.stop()


async def test_the_bound_refuses_one_task_more() -> None:
    owner = TaskOwner(1)
    owner.start(wait_for_ever(), "first")
    with pytest.raises(RuntimeError, match="1 tasks already: second"):
        owner.start(wait_for_ever(), "second")
    await owner.stop()


async def test_nothing_starts_after_stop() -> None:
    owner = TaskOwner(1)
    await owner.stop()
    with pytest.raises(RuntimeError, match="stopped"):
        owner.start(wait_for_ever(), "late")


async def test_an_unreported_failure_is_raised_by_stop_once() -> None:
    owner = TaskOwner(1)
    await asyncio.wait([owner.start(fail(), "doomed")])
    with pytest.raises(LookupError):
        await owner.stop()
    await owner.stop()


async def test_a_failure_is_reported_at_once_to_a_listener() -> None:
    failures: list[tuple[str, str]] = []
    owner = TaskOwner(1, lambda task, error: failures.append((task.get_name(), str(error))))
    await asyncio.wait([owner.start(fail(), "doomed")])
    assert failures == [("doomed", "broken")]
    await owner.stop()
