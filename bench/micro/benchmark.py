"""How the micro-benchmarks in this folder are measured (`make micro`).

Each is a test of pytest-benchmark. It measures the CPU time of this process, which a busy machine
disturbs little. The column to read is the minimum: the others include other work of the machine.
`make test` runs each once without measuring, and checks the result of its call, so that none rots.
"""

from collections.abc import Callable
from time import process_time
from typing import Protocol, TypeVar

import pytest

T = TypeVar("T")


class Benchmark(Protocol):
    """The fixture `benchmark`: calls many times, measures, and returns the result of one call."""

    def __call__(self, call: Callable[[], T], /) -> T: ...


CPU_TIME = pytest.mark.benchmark(timer=process_time, max_time=0.5)
