"""A test's broker beside the event loop of a test suite, whichever that is."""

import os
import subprocess
import sys
from collections.abc import Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
import uvloop

from tierlog.testing import Broker, BrokerError
from tierlog.tests.house_rules import ROOT
from tierlog.tests.testing.broker_clients import TIMEOUT_S, our_threads


async def use_a_broker() -> None:
    async with Broker(tier="memory") as broker:
        await anyio.to_thread.run_sync(broker.create_topic, "orders")
        broker.kill()
        broker.restart()
        assert broker.records("orders") == []
        await anyio.lowlevel.checkpoint()
    assert our_threads() == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_coroutine_has_a_broker_on_either_loop_of_anyio(backend: str) -> None:
    anyio.run(use_a_broker, backend=backend)


def test_a_coroutine_has_a_broker_on_uvloop() -> None:
    uvloop.run(use_a_broker())


def test_the_error_of_the_body_passes_on_trio_and_the_broker_is_gone() -> None:
    async def fail() -> None:
        async with Broker():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        trio.run(fail)
    assert our_threads() == []


def test_a_refusal_is_raised_on_trio() -> None:
    async def start() -> None:
        async with Broker({"log.retention.hours": "soon"}):
            pass

    with pytest.raises(BrokerError, match=r"log\.retention\.hours"):
        trio.run(start)
    assert our_threads() == []


def test_a_broker_whose_scope_is_cancelled_on_trio_is_gone() -> None:
    async def cancel() -> None:
        with trio.CancelScope() as scope:
            async with Broker():
                scope.cancel()
                await trio.sleep(TIMEOUT_S)
        assert scope.cancelled_caught

    trio.run(cancel)
    assert our_threads() == []


def test_a_loop_that_is_not_known_gets_a_sentence() -> None:
    async def start() -> None:
        async with Broker():
            pass

    starting: Coroutine[Any, Any, None] = start()
    with pytest.raises(BrokerError, match=r"write `with Broker\(\) as broker:`"):
        # What a loop does first with a coroutine.
        starting.send(None)


ACTS = """
from tierlog.testing import Broker

for is_process in (False, True):
    with Broker(tier="memory", process=is_process) as broker:
        broker.create_topic("orders")
        broker.kill()
        broker.restart()
        assert broker.records("orders") == []
"""
UVLOOP_FOR_ALL = """
import asyncio
import warnings

import uvloop

with warnings.catch_warnings():
    # Policies end with Python 3.16.
    warnings.simplefilter("ignore", DeprecationWarning)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
"""
GEVENT_FOR_ALL = """
from gevent import monkey

monkey.patch_all()
"""


def run_program(text: str, *options: str) -> None:
    ran = subprocess.run(
        [sys.executable, *options, "-c", text],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".namespace")},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.slow
def test_a_broker_has_asyncios_own_loop_where_the_policy_is_uvloops() -> None:
    run_program(UVLOOP_FOR_ALL + ACTS, "-W", "error")


@pytest.mark.slow
def test_a_broker_runs_in_a_process_that_gevent_has_patched() -> None:
    run_program(GEVENT_FOR_ALL + ACTS)
