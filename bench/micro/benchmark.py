"""How the micro-benchmarks here are measured: `make micro`.

Each is a test of pytest-benchmark. What counts is CPU time of this process, so that a busy machine
disturbs little, and of the columns the least: the rest is what else the machine did. `make test`
runs each once without measuring, and each checks what its call answers, so that none can rot.
"""

from collections.abc import Callable
from time import process_time
from typing import Protocol, TypeVar

import pytest

T = TypeVar("T")


class Benchmark(Protocol):
    """The fixture `benchmark`: calls many times, measures, and returns one call's answer."""

    def __call__(self, call: Callable[[], T], /) -> T: ...


CPU_TIME = pytest.mark.benchmark(timer=process_time, max_time=0.5)
