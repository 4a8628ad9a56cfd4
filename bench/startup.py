"""Start-up: CPU seconds and seconds to the first answered Metadata request, and memory then.

Both brokers start on an empty directory, in turn, several times; the medians are compared. CPU
seconds are the figure to trust on a busy machine.
"""

import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .broker_node import BrokerNode
from .kafka_peer import KafkaNode
from .process_usage import read_usage
from .report import MEBIBYTE, print_table, ratio
from .tierlog_node import TierlogNode

if TYPE_CHECKING:
    from collections.abc import Callable


class Startup(NamedTuple):
    """One start of one broker."""

    seconds: float
    cpu_seconds: float
    resident_bytes: int


def measure_start(node: BrokerNode) -> Startup:
    """Start a node, read what it used up to its first answer, and stop it."""
    seconds = node.start()
    usage = read_usage(node.pid)
    node.stop()
    return Startup(seconds, usage.cpu_seconds, usage.resident_bytes)


def _median(starts: list[Startup]) -> Startup:
    return Startup(
        statistics.median(start.seconds for start in starts),
        statistics.median(start.cpu_seconds for start in starts),
        int(statistics.median(start.resident_bytes for start in starts)),
    )


def run(rounds: int) -> dict[str, Startup]:
    """Start both brokers `rounds` times in turn, print the table, return the medians by name."""
    brokers: dict[str, Callable[[Path], BrokerNode]] = {"tierlog": TierlogNode, "Kafka": KafkaNode}
    starts: dict[str, list[Startup]] = {name: [] for name in brokers}
    with tempfile.TemporaryDirectory(prefix="tierlog-bench-") as scratch:
        for round_number in range(rounds):
            for name, make in brokers.items():
                node = make(Path(scratch) / f"{name}-{round_number}")
                starts[name].append(measure_start(node))
    medians = {name: _median(measured) for name, measured in starts.items()}
    tierlog, kafka = medians["tierlog"], medians["Kafka"]
    print_table(
        f"Start-up on an empty directory, medians of {rounds}",
        ("", "tierlog", "Kafka", "tierlog ÷ Kafka"),
        [
            (
                "CPU seconds to the first Metadata answer",
                f"{tierlog.cpu_seconds:.2f}",
                f"{kafka.cpu_seconds:.2f}",
                ratio(tierlog.cpu_seconds, kafka.cpu_seconds),
            ),
            (
                "seconds to the first Metadata answer",
                f"{tierlog.seconds:.2f}",
                f"{kafka.seconds:.2f}",
                ratio(tierlog.seconds, kafka.seconds),
            ),
            (
                "resident MiB then",
                f"{tierlog.resident_bytes / MEBIBYTE:.0f}",
                f"{kafka.resident_bytes / MEBIBYTE:.0f}",
                ratio(tierlog.resident_bytes, kafka.resident_bytes),
            ),
        ],
    )
    return medians
