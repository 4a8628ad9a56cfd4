"""Coroutines that run on another library's event loop than asyncio's: trio's, also below anyio.

A broker has a loop of its own, in a thread; all that is needed here is to wait for it. trio is
never imported: a test on its loop has done that.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, cast

from .broker_error import BrokerError


def foreign_loop_is_running() -> bool:
    """Whether the coroutine that calls runs on another loop than one of asyncio's."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False


async def run_in_thread(act: Callable[[], None]) -> None:
    """Call `act` in a thread and wait for it, whatever is cancelled meanwhile.

    Raises what it raises, and BrokerError if the library is not known.
    """
    trio = cast("Any", sys.modules.get("trio"))
    if trio is None or not trio.lowlevel.in_trio_run():
        raise BrokerError(
            "`async with Broker()` needs the event loop of asyncio or trio: "
            "write `with Broker() as broker:`, which needs none."
        )
    # A start that nobody waits for would leave a broker, and a stop has to be one.
    with trio.CancelScope(shield=True):
        await trio.to_thread.run_sync(act)
