"""The cost of appending, planning a fetch, looking up, waiting and reading from the tier."""

from collections.abc import Iterator

import pytest

from tierlog.bench.micro.benchmark import CPU_TIME, Benchmark
from tierlog.bench.micro.costs import load_baseline
from tierlog.bench.micro.hot_calls import HotCall, hot_calls

pytestmark = CPU_TIME


@pytest.fixture(scope="module", name="calls")
def _calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, HotCall]]:
    with hot_calls(str(tmp_path_factory.mktemp("hot"))) as calls:
        yield calls


@pytest.mark.benchmark(group="hot calls")
@pytest.mark.parametrize("name", load_baseline().costs)
def test_hot_call(benchmark: Benchmark, calls: dict[str, HotCall], name: str) -> None:
    assert benchmark(calls[name])
