"""What a module of tests leaves behind goes with it: garbage, and memory that was freed.

A worker holds tens of thousands of collected tests. They are not garbage, but as long as the
collector looks at them it runs its last generation rarely, and whole brokers of simulations wait
for it. glibc, too, keeps what was freed: without this a worker grows to more than 2 GiB.
"""

import ctypes
import gc
from collections.abc import Callable, Generator

import pytest

_trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Gives freed memory back to the system; glibc alone has it."""


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        if _trim is not None:
            _trim(0)
