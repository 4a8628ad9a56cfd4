"""What a broker of `tierlog.testing` costs: a start, a stop, and 200 tests with a topic each.

    python -m tierlog.bench.micro.start_broker

Beside it, what a start costs in containers, as those have published it who measured it.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tierlog.testing import Broker

ROUNDS = 51
TESTS = 200
RUN_WITHIN_S = 600
PUBLISHED = (
    ("apache/kafka in a container", "3.9 s", "KIP-975"),
    ("cp-kafka in a container", "3.3 s", "KIP-975"),
    ("Testcontainers", "10 to 25 s", "testcontainers-java#4479"),
)
_TEST = f"""
import pytest
from confluent_kafka import Producer


@pytest.mark.parametrize("number", range({TESTS}))
def test_a_record(tierlog_broker, tierlog_topic, number):
    producer = Producer(tierlog_broker.config())
    producer.produce(tierlog_topic, b"%d" % number)
    assert producer.flush(60) == 0
    assert [record.value for record in tierlog_broker.records(tierlog_topic)] == [b"%d" % number]
"""


def main() -> None:
    """Print medians in milliseconds, and the time of the tests in seconds."""
    for tier in (None, "memory"):
        print(_brokers(tier))
    for what, duration, source in PUBLISHED:
        print(f"{what}: start to ready {duration} ({source})")
    for options in ((), ("-n", "2")):
        words = " ".join(["pytest", *options])
        print(
            f"{TESTS} tests with a topic, a producer and a record each: {_run(options)} ({words})"
        )


def _brokers(tier: str | None) -> str:
    starts: list[float] = []
    cpus: list[float] = []
    topics: list[float] = []
    stops: list[float] = []
    for _ in range(ROUNDS):
        broker = Broker(tier=tier)
        began, cpu_began = time.perf_counter(), time.process_time()
        broker.start()
        starts.append(time.perf_counter() - began)
        cpus.append(time.process_time() - cpu_began)
        began = time.perf_counter()
        broker.create_topic("orders")
        topics.append(time.perf_counter() - began)
        began = time.perf_counter()
        broker.close()
        stops.append(time.perf_counter() - began)
    words = "no tier" if tier is None else "a tier in memory"
    return (
        f"{words}: start to ready {_ms(starts)} ms (CPU {_ms(cpus)} ms, slowest of {ROUNDS} "
        f"{max(starts) * 1000:.0f} ms), create a topic {_ms(topics)} ms, stop {_ms(stops)} ms"
    )


def _run(options: tuple[str, ...]) -> str:
    """How long pytest takes for the tests, from the start of its process to its end."""
    with tempfile.TemporaryDirectory() as project:
        (Path(project) / "test_many.py").write_text(_TEST)
        began, cpu_began = time.perf_counter(), _children_cpu()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
            cwd=project,
            capture_output=True,
            text=True,
            timeout=RUN_WITHIN_S,
            check=False,
        )
        elapsed = time.perf_counter() - began
    if f"{TESTS} passed" not in done.stdout:
        raise SystemExit(done.stdout + done.stderr)
    return f"{elapsed:.1f} s, CPU {_children_cpu() - cpu_began:.1f} s"


def _children_cpu() -> float:
    spent = os.times()
    return spent.children_user + spent.children_system


def _ms(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.1f}"


if __name__ == "__main__":
    main()
