"""The producers of a chaos run leave nothing open."""

import os
from pathlib import Path

from tierlog.bench.harness.loads.acknowledged.producers import SteadyProducer
from tierlog.bench.harness.loads.acknowledged.steady_producers import LIBRDKAFKA, Stated

from .....waiting import wait_until


def open_pipes() -> set[str]:
    """The pipes of this process."""
    own = Path("/proc/self/fd")
    links = (os.readlink(each) for each in own.iterdir() if each.is_symlink())
    return {link for link in links if link.startswith("pipe:")}


def test_one_that_has_ended_by_itself_keeps_no_pipe(tmp_path: Path) -> None:
    before = open_pipes()
    # It cannot spread records over no partition.
    producer = SteadyProducer(LIBRDKAFKA, Stated("127.0.0.1:1", "t", 0, 1000, 100), tmp_path)
    wait_until(producer.has_ended, 60, "it runs")
    assert open_pipes() - before
    producer.kill()
    assert not open_pipes() - before
