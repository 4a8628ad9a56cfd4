"""Produce and consume with librdkafka against tierlog and Apache Kafka, in one run.

Both brokers are up at once and take their turns on the same topic shape, several rounds each, so
that a noisy minute hits both. Reported a broker: MB/s as the client saw it, the broker's own CPU
seconds per GB, and its resident memory after the load. Medians over the rounds.

Every batch size meets a fresh pair of brokers, so that no row depends on the rows before it. The
first rounds warm both up and do not count. How many they are matters: a JVM goes on compiling for
some gigabytes, and its CPU per GB falls by half and more meanwhile, while ours stays. One round is
a broker's first gigabytes; a dozen (`--warm-up 12`) is one that has been under load for long.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from .broker_node import BrokerNode
from .kafka_peer import KafkaNode
from .load import create_topic, delete_topic
from .process_usage import read_usage
from .report import GIGABYTE, MEBIBYTE, print_table, ratio
from .tierlog_node import TierlogNode

TOPIC_CONFIG = {
    "segment.bytes": str(256 * MEBIBYTE),
    "retention.ms": "-1",
    "file.delete.delay.ms": "1000",
}


class Workload(NamedTuple):
    """One shape of load: how many records of which size, in batches of which size."""

    record_bytes: int
    batch_bytes: int
    records: int

    @property
    def total_bytes(self) -> int:
        return self.record_bytes * self.records


class Measurement(NamedTuple):
    """One direction of one round at one broker."""

    megabytes_per_second: float
    cpu_seconds_per_gigabyte: float
    resident_bytes: int


def measure(node: BrokerNode, direction: str, topic: str, workload: Workload) -> Measurement:
    """Run one client to its end and read what the broker used for it."""
    # What the round before left to be written would be written now, on this one's account.
    os.sync()
    before = read_usage(node.pid)
    command = [sys.executable, "-m", "tierlog.bench.load", direction]
    command += ["--bootstrap", node.bootstrap, "--topic", topic]
    command += ["--records", str(workload.records), "--record-bytes", str(workload.record_bytes)]
    command += ["--batch-bytes", str(workload.batch_bytes)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if answer.returncode != 0:
        raise RuntimeError(f"the {direction} client failed:\n{answer.stderr}")
    after = read_usage(node.pid)
    seconds: float = json.loads(answer.stdout)["seconds"]
    return Measurement(
        workload.total_bytes / seconds / 1e6,
        (after.cpu_seconds - before.cpu_seconds) / (workload.total_bytes / GIGABYTE),
        after.resident_bytes,
    )


Results = dict[tuple[str, str], list[Measurement]]
"""By (broker, direction): one measurement a counted round."""


def run_workload(
    nodes: dict[str, BrokerNode], workload: Workload, *, warm_up: int, rounds: int
) -> Results:
    """`warm_up` rounds and `rounds` counted ones, the brokers in turn."""
    results: Results = {}
    for round_number in range(warm_up + rounds):
        for name, node in nodes.items():
            topic = f"bench-{workload.batch_bytes}-{workload.record_bytes}-{round_number}"
            create_topic(node.bootstrap, topic, TOPIC_CONFIG)
            for direction in ("produce", "consume"):
                measurement = measure(node, direction, topic, workload)
                if round_number >= warm_up:
                    results.setdefault((name, direction), []).append(measurement)
            delete_topic(node.bootstrap, topic)
    return results


def _median(results: list[Measurement]) -> Measurement:
    return Measurement(
        statistics.median(one.megabytes_per_second for one in results),
        statistics.median(one.cpu_seconds_per_gigabyte for one in results),
        max(one.resident_bytes for one in results),
    )


def _row(direction: str, workload: Workload, results: Results) -> tuple[str, ...]:
    ours = _median(results["tierlog", direction])
    theirs = _median(results["Kafka", direction])
    cpu = (ours.cpu_seconds_per_gigabyte, theirs.cpu_seconds_per_gigabyte)
    rate = (ours.megabytes_per_second, theirs.megabytes_per_second)
    return (
        f"{direction}, {workload.batch_bytes >> 10} KiB batches",
        *(f"{cpu[0]:.2f}", f"{cpu[1]:.2f}", ratio(*cpu)),
        *(f"{rate[0]:.0f}", f"{rate[1]:.0f}", ratio(*rate)),
        f"{ours.resident_bytes / MEBIBYTE:.0f}",
        f"{theirs.resident_bytes / MEBIBYTE:.0f}",
    )


def _fresh_pair(workload: Workload, *, warm_up: int, rounds: int) -> Results:
    """One workload on two brokers that have done nothing before."""
    with tempfile.TemporaryDirectory(prefix="tierlog-bench-") as scratch:
        tierlog = TierlogNode(Path(scratch) / "tierlog")
        kafka = KafkaNode(Path(scratch) / "kafka")
        with tierlog, kafka:
            nodes: dict[str, BrokerNode] = {"tierlog": tierlog, "Kafka": kafka}
            return run_workload(nodes, workload, warm_up=warm_up, rounds=rounds)


def run(
    megabytes: int, rounds: int, warm_up: int = 1, batch_sizes: tuple[int, ...] = (16384, 131072)
) -> None:
    """Measure every batch size at 1 KiB records and print one table."""
    rows: list[tuple[str, ...]] = []
    for batch_bytes in batch_sizes:
        workload = Workload(1024, batch_bytes, megabytes * 1_000_000 // 1024)
        results = _fresh_pair(workload, warm_up=warm_up, rounds=rounds)
        rows += [_row(direction, workload, results) for direction in ("produce", "consume")]
    print_table(
        f"librdkafka, 1 KiB records, acks=all, {megabytes} MB a round, "
        f"medians of {rounds} rounds after {warm_up} to warm up",
        (
            "",
            "CPU-s/GB tierlog",
            "Kafka",
            "ratio",
            "MB/s tierlog",
            "Kafka",
            "ratio",
            "MiB resident tierlog",
            "Kafka",
        ),
        rows,
    )
