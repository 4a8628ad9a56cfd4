"""Async tests run to their end, and fail when anything in them does."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tierlog.tests.async_tests import entered
from tierlog.tests.simulation.loop import SimulatedLoop

FAILING = """
import asyncio, contextlib, pytest
from tierlog.tests.async_tests import entered

@contextlib.asynccontextmanager
async def broken_at_the_end():
    yield 1
    assert False, "the context's own failure"

@pytest.fixture
def context():
    return entered(broken_at_the_end())

async def fail_at_once(loop):
    loop.call_soon(lambda: 1 / 0)
    await asyncio.sleep(0.01)

async def fail_when_cancelled():
    try:
        await asyncio.Event().wait()
    finally:
        raise LookupError("left behind")

async def leave_a_task(loop):
    left = loop.create_task(fail_when_cancelled())
    await asyncio.sleep(0.01)
    assert not left.done()

async def test_assertion(loop):
    assert loop.time() == 1

async def test_assertion_in_a_real_loop():
    await asyncio.sleep(0)
    assert False

async def test_callback(loop):
    await fail_at_once(loop)

async def test_callback_in_a_real_loop():
    await fail_at_once(asyncio.get_running_loop())

async def test_left_task(loop):
    await leave_a_task(loop)

async def test_left_task_in_a_real_loop():
    await leave_a_task(asyncio.get_running_loop())

async def test_deadlock(loop):
    await asyncio.Event().wait()

@pytest.mark.simulated(time_limit_s=10)
async def test_time_limit(loop):
    await asyncio.sleep(11)

async def test_context(context):
    assert context == 1

@pytest.mark.parametrize("seed", [41, 42])
async def test_seed(loop, seed):
    assert seed == 41

async def test_no_await(loop):
    asyncio.sleep(1)

async def test_outside_of_the_simulation(loop):
    await asyncio.open_connection("127.0.0.1", 9)
"""


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest prints of the tests above."""
    folder = tmp_path_factory.mktemp("failing")
    (folder / "test_failing.py").write_text(FAILING)
    plugins = ("-p", "tierlog.tests.async_tests", "-p", "no:cacheprovider", "-p", "no:tierlog")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-rfEp", "-W", "error", "test_failing.py"],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize(
    "said",
    [
        "FAILED test_failing.py::test_assertion - ",
        "FAILED test_failing.py::test_assertion_in_a_real_loop - assert False",
        "FAILED test_failing.py::test_callback - AssertionError: seed 0: nobody handled: ",
        "FAILED test_failing.py::test_callback_in_a_real_loop - AssertionError: nobody handled: ",
        "FAILED test_failing.py::test_left_task - AssertionError: seed 0: nobody handled: ",
        "FAILED test_failing.py::test_left_task_in_a_real_loop - AssertionError: nobody handled: ",
        "FAILED test_failing.py::test_deadlock - tierlog.tests.simulation.loop.DeadlockError: ",
        "FAILED test_failing.py::test_time_limit - tierlog.tests.simulation.loop.TimeLimitError: ",
        "FAILED test_failing.py::test_context - AssertionError: the context's own failure",
        "FAILED test_failing.py::test_seed[42] - assert 42 == 41",
        "simulated with seed 42, at 0.000000 s",
        "FAILED test_failing.py::test_no_await - ",
        "FAILED test_failing.py::test_outside_of_the_simulation - tierlog.tests.simulation.loop.Re",
        "12 failed, 1 passed",
    ],
)
def test_what_fails_in_an_async_test_fails_it(failures: str, said: str) -> None:
    assert said in failures, failures


@asynccontextmanager
async def _noted(seen: list[str]) -> AsyncGenerator[list[str]]:
    seen.append("entered")
    yield seen
    seen.append("left")


_seen: list[str] = []


@pytest.fixture
def noted() -> list[str]:
    return entered(_noted(_seen))


@pytest.mark.parametrize("hours", [1, 2])
async def test_fixtures_parameters_and_the_loop_come_together(
    loop: SimulatedLoop, noted: list[str], tmp_path: Path, hours: int
) -> None:
    assert asyncio.get_running_loop() is loop
    await asyncio.sleep(hours * 3600)
    assert loop.time() == hours * 3600
    assert tmp_path.name
    assert noted[-1] == "entered"


def test_a_context_is_left_after_its_test() -> None:
    assert _seen == ["entered", "left"] * 2


@pytest.mark.usefixtures("loop")
async def test_the_loop_is_simulated_where_it_is_only_used() -> None:
    await asyncio.sleep(3600)


async def test_the_loop_is_a_real_one_where_nobody_asks_for_another() -> None:
    assert not isinstance(asyncio.get_running_loop(), SimulatedLoop)


async def test_the_loop_has_the_seed_of_the_simulation(
    loop: SimulatedLoop, simulation_seed: int
) -> None:
    assert loop.seed == simulation_seed
