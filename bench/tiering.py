"""What tiering costs: tierlog and Apache Kafka, each with its tier in a directory of this machine.

Three questions, asked of both brokers in turn on the same topic shapes:

- does copying disturb producers? Latency at a steady rate with tiering on against tiering off,
  counted from when each record was meant to be sent (`steady_load.py`);
- how fast is catching up from the tier? The same records from the tier and from the local disk,
  each round with the page cache warm for both, through the same librdkafka consumer;
- what does copying cost? CPU seconds a gigabyte with nothing else to do, and how much of a
  producer's throughput is gone while a backlog is copied at a fixed rate, for each 10 MB/s of it.

CPU seconds and ratios within one run are the figures to trust on a busy machine. Kafka's tier is
its LocalTieredStorage, ours a `file://` tier, both with the topic-based metadata manager. The
rounds before the counted ones warm up the JVM; it goes on compiling for some gigabytes.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .broker_node import BrokerNode
from .load import create_topic, delete_topic
from .process_usage import read_usage
from .report import GIGABYTE, MEBIBYTE, print_table, ratio
from .tiered_pair import (
    KEPT_HERE,
    SEGMENT_BYTES,
    TIERED,
    UNTIERED,
    bytes_in_tier,
    enable_tiering,
    limit_copying,
    tiered_pair,
    wait_until_copied,
    wait_until_local_is_small,
)

_RECORD_BYTES = 1024
_BATCH_BYTES = 131_072
_UNLIMITED = 2**63 - 1
_BACKLOG_RATE = 50_000_000
"""Bytes a second of copying beside a producer: several times 10 MB/s, to stand out of the noise."""


class Scale(NamedTuple):
    """How much of everything."""

    megabytes: int = 200
    rounds: int = 3
    warm_up: int = 1
    seconds: float = 10.0
    records_per_second: int = 15_000

    @property
    def records(self) -> int:
        return self.megabytes * 1_000_000 // _RECORD_BYTES

    def turns(self) -> Iterator[tuple[int, bool]]:
        """Every round, and whether it counts."""
        for number in range(self.warm_up + self.rounds):
            yield number, number >= self.warm_up


class Cost(NamedTuple):
    """What one pass over some bytes took."""

    megabytes_per_second: float
    cpu_seconds_per_gigabyte: float


Figures = dict[tuple[str, str], list[float]]
"""By (broker, what): one figure a counted round."""

Nodes = dict[str, BrokerNode]


def _add(figures: Figures, broker: str, what: str, value: float) -> None:
    figures.setdefault((broker, what), []).append(value)


def _client(module: str, *arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", f"tierlog.bench.{module}", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if answer.returncode != 0:
        raise RuntimeError(f"the client failed:\n{answer.stderr}")
    figures: dict[str, float] = json.loads(answer.stdout)
    return figures


def _load(node: BrokerNode, direction: str, topic: str, records: int) -> Cost:
    """Produce or consume once, as fast as it goes."""
    os.sync()
    before = read_usage(node.pid).cpu_seconds
    figures = _client(
        "load",
        *(direction, "--bootstrap", node.bootstrap, "--topic", topic, "--records", str(records)),
        *("--record-bytes", str(_RECORD_BYTES), "--batch-bytes", str(_BATCH_BYTES)),
    )
    nbytes = records * _RECORD_BYTES
    used = read_usage(node.pid).cpu_seconds - before
    return Cost(nbytes / figures["seconds"] / 1e6, used / (nbytes / GIGABYTE))


# -- Latency ------------------------------------------------------------------------------------


def measure_latency(nodes: Nodes, scale: Scale) -> Figures:
    """Quantiles in milliseconds, tiered and untiered in turn at each broker."""
    figures: Figures = {}
    kinds = {"untiered": UNTIERED, "tiered": KEPT_HERE}
    for number, counts in scale.turns():
        for name, node in nodes.items():
            for kind, config in kinds.items():
                topic = f"steady-{kind}-{number}"
                create_topic(node.bootstrap, topic, config)
                os.sync()
                found = _client(
                    "steady_load",
                    *("--bootstrap", node.bootstrap, "--topic", topic),
                    *("--records-per-second", str(scale.records_per_second)),
                    *("--record-bytes", str(_RECORD_BYTES), "--seconds", str(scale.seconds)),
                )
                if kind == "tiered" and not bytes_in_tier(node, topic):
                    raise RuntimeError(f"{name} has copied nothing of {topic} meanwhile")
                delete_topic(node.bootstrap, topic)
                if counts:
                    for quantile, milliseconds in found.items():
                        _add(figures, name, f"{kind} {quantile}", milliseconds)
    return figures


def _latency_rows(figures: Figures) -> Iterator[tuple[str, ...]]:
    for quantile in ("p50", "p99", "p99.9"):
        cells: list[str] = []
        for name in ("tierlog", "Kafka"):
            tiered = statistics.median(figures[name, f"tiered {quantile}"])
            untiered = statistics.median(figures[name, f"untiered {quantile}"])
            cells += [f"{tiered:.1f}", f"{untiered:.1f}", ratio(tiered, untiered)]
        yield f"produce {quantile}, ms", *cells


# -- Catching up --------------------------------------------------------------------------------


def measure_catch_up(nodes: Nodes, scale: Scale) -> dict[tuple[str, str], list[Cost]]:
    """Read a topic that is in the tier, and one that is on the broker's disk, in turn."""
    for node in nodes.values():
        for topic, config in (("here", UNTIERED), ("there", TIERED)):
            create_topic(node.bootstrap, topic, config)
            _load(node, "produce", topic, scale.records)
        wait_until_local_is_small(node, "there")
    costs: dict[tuple[str, str], list[Cost]] = {}
    for _, counts in scale.turns():
        for name, node in nodes.items():
            for topic in ("here", "there"):
                cost = _load(node, "consume", topic, scale.records)
                if counts:
                    costs.setdefault((name, topic), []).append(cost)
    for node in nodes.values():
        for topic in ("here", "there"):
            delete_topic(node.bootstrap, topic)
    return costs


def _cost_cells(ours: list[Cost], theirs: list[Cost]) -> tuple[str, ...]:
    cells: list[str] = []
    for field in (1, 0):
        pair = [statistics.median(cost[field] for cost in costs) for costs in (ours, theirs)]
        cells += [*(f"{value:.2f}" if field else f"{value:.0f}" for value in pair), ratio(*pair)]
    return tuple(cells)


# -- Copying ------------------------------------------------------------------------------------


def _backlog(node: BrokerNode, topic: str, records: int) -> int:
    """A topic that is not tiered yet; how much of it can be copied once it is."""
    create_topic(node.bootstrap, topic, UNTIERED)
    _load(node, "produce", topic, records)
    return records * _RECORD_BYTES - SEGMENT_BYTES


def measure_copying(nodes: Nodes, scale: Scale) -> dict[tuple[str, str], list[Cost]]:
    """CPU a gigabyte and MB/s of copying a backlog while nothing else happens."""
    costs: dict[tuple[str, str], list[Cost]] = {}
    for number, counts in scale.turns():
        for name, node in nodes.items():
            topic = f"copied-{number}"
            nbytes = _backlog(node, topic, scale.records)
            os.sync()
            before = read_usage(node.pid).cpu_seconds
            enable_tiering(node, topic)
            wait_until_copied(node, topic, 1)
            took = wait_until_copied(node, topic, nbytes)
            used = read_usage(node.pid).cpu_seconds - before
            copied = bytes_in_tier(node, topic)
            if counts:
                cost = Cost(copied / max(took, 0.001) / 1e6, used / (copied / GIGABYTE))
                costs.setdefault((name, "copy"), []).append(cost)
            delete_topic(node.bootstrap, topic)
    return costs


class Theft(NamedTuple):
    """A producer beside copying: its throughput with and without, and how fast was copied."""

    alone: float
    beside: float
    copied_per_second: float

    @property
    def percent_per_10_megabytes(self) -> float:
        lost = 100 * (1 - self.beside / self.alone)
        return lost / (self.copied_per_second / 10) if self.copied_per_second else 0.0


def measure_theft(nodes: Nodes, scale: Scale) -> dict[str, list[Theft]]:
    """Throughput in MB/s of a producer that goes as fast as it can, alone and beside copying."""
    thefts: dict[str, list[Theft]] = {}
    for node in nodes.values():
        limit_copying(node, _BACKLOG_RATE)
    for number, counts in scale.turns():
        for name, node in nodes.items():
            backlog = f"backlog-{number}"
            _backlog(node, backlog, scale.records)
            alone = _produced(node, f"alone-{number}", scale.records)
            enable_tiering(node, backlog)
            wait_until_copied(node, backlog, 1)
            before, started = bytes_in_tier(node, backlog), time.perf_counter()
            beside = _produced(node, f"beside-{number}", scale.records)
            seconds = time.perf_counter() - started
            copied = (bytes_in_tier(node, backlog) - before) / seconds / 1e6
            delete_topic(node.bootstrap, backlog)
            if counts:
                thefts.setdefault(name, []).append(Theft(alone, beside, copied))
    for node in nodes.values():
        limit_copying(node, _UNLIMITED)
    return thefts


def _produced(node: BrokerNode, topic: str, records: int) -> float:
    create_topic(node.bootstrap, topic, UNTIERED)
    cost = _load(node, "produce", topic, records)
    delete_topic(node.bootstrap, topic)
    return cost.megabytes_per_second


def _theft_row(thefts: dict[str, list[Theft]]) -> tuple[str, ...]:
    cells: list[str] = []
    for name in ("tierlog", "Kafka"):
        found = thefts[name]
        cells += [
            f"{statistics.median(each.alone for each in found):.0f}",
            f"{statistics.median(each.beside for each in found):.0f}",
            f"{statistics.median(each.copied_per_second for each in found):.0f}",
            f"{statistics.median(each.percent_per_10_megabytes for each in found):.1f} %",
        ]
    return "produce beside copying", *cells


# -- All of it ----------------------------------------------------------------------------------

_COSTS = ("CPU-s/GB tierlog", "Kafka", "ratio", "MB/s tierlog", "Kafka", "ratio")
_PAIRED = ("tierlog tiered", "untiered", "ratio", "Kafka tiered", "untiered", "ratio")
_THEFT = ("tierlog alone", "beside", "copied", "lost per 10 MB/s")


def _run_costs(scale: Scale, rounds: str) -> None:
    with tempfile.TemporaryDirectory(prefix="tierlog-bench-") as scratch:
        with tiered_pair(Path(scratch)) as nodes:
            caught = measure_catch_up(nodes, scale)
            copied = measure_copying(nodes, scale)
            thefts = measure_theft(nodes, scale)
    rows = [
        (title, *_cost_cells(caught["tierlog", topic], caught["Kafka", topic]))
        for title, topic in (("consume from the tier", "there"), ("consume locally", "here"))
    ]
    rows.append(
        ("copy to the tier", *_cost_cells(copied["tierlog", "copy"], copied["Kafka", "copy"]))
    )
    print_table(
        f"Tiering, {scale.megabytes} MB a round in segments of {SEGMENT_BYTES // MEBIBYTE} MiB, "
        f"{rounds}",
        ("", *_COSTS),
        rows,
    )
    header = ("MB/s", *_THEFT, *(name.replace("tierlog", "Kafka") for name in _THEFT))
    print_table(f"A producer beside copying, {rounds}", header, [_theft_row(thefts)])


def run(scale: Scale) -> None:
    """Measure everything and print three tables. Each part meets brokers that are new."""
    rounds = f"medians of {scale.rounds} rounds after {scale.warm_up} to warm up"
    with tempfile.TemporaryDirectory(prefix="tierlog-bench-") as scratch:
        with tiered_pair(Path(scratch)) as nodes:
            latencies = measure_latency(nodes, scale)
    rate = scale.records_per_second * _RECORD_BYTES / 1e6
    print_table(
        f"Latency at a steady {rate:.0f} MB/s for {scale.seconds:.0f} s, {rounds}",
        ("", *_PAIRED),
        list(_latency_rows(latencies)),
    )
    _run_costs(scale, rounds)
