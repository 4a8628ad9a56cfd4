"""How long a broker of `tierlog.testing` takes to start and to stop, in the process of a test.

    python -m tierlog.bench.micro.start_broker

Beside it, what the same costs in containers, as their users have measured it: apache/kafka 3.9 s
and cp-kafka 3.3 s (KIP-975); with Testcontainers 10 to 25 s (testcontainers-java#4479).
"""

import statistics
import time

from tierlog.testing import Broker

ROUNDS = 51


def main() -> None:
    """Print medians, in milliseconds."""
    for tier in (None, "memory"):
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
        print(
            f"{words}: start to ready {_ms(starts)} ms (CPU {_ms(cpus)} ms, slowest of {ROUNDS} "
            f"{max(starts) * 1000:.0f} ms), create a topic {_ms(topics)} ms, stop {_ms(stops)} ms"
        )


def _ms(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.1f}"


if __name__ == "__main__":
    main()
