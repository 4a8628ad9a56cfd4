"""Reads a topic with Spark, directly from its tier or through the broker, on some cores.

All of Spark (JVM, Python workers) is limited to these cores, so that the cost per row is
comparable, whichever process does the work. A first, untimed reading lets the JVM compile. The
query counts rows and sums the sizes of keys and values, so that all of them are decoded.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from ..processes.process_usage import read_usage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DIRECT = "direct"
CONNECTOR = "connector"
READINGS = 2
"""The number of readings, of which the first is not timed."""


class _Order(NamedTuple):
    source: str
    cores: int
    options: Mapping[str, str]
    broker_pid: int


def _parse(arguments: list[str]) -> _Order:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", choices=(DIRECT, CONNECTOR))
    parser.add_argument("--cores", type=int, required=True)
    parser.add_argument("--options", required=True, help="the source's options, as JSON")
    parser.add_argument("--broker-pid", type=int, required=True)
    stated = parser.parse_args(arguments)
    options = cast("dict[str, str]", json.loads(stated.options))
    return _Order(stated.source, stated.cores, options, stated.broker_pid)


def _session(order: _Order) -> "SparkSession":
    from ....pipeline.spark.session import spark_session
    from ....pipeline.spark.source import TierlogDataSource

    jars = ("kafka",) if order.source == CONNECTOR else ()
    spark = spark_session("spark-scan", master=f"local[{order.cores}]", jars=jars)
    spark.dataSource.register(TierlogDataSource)
    return spark


def _rows(spark: "SparkSession", order: _Order) -> "DataFrame":
    form = "tierlog" if order.source == DIRECT else "kafka"
    return spark.read.format(form).options(**order.options).load()


def _read(rows: "DataFrame") -> tuple[int, int]:
    from pyspark.sql import functions as f

    nbytes = f.coalesce(f.length("key"), f.lit(0)) + f.coalesce(f.length("value"), f.lit(0))
    (totals,) = rows.select(f.count("*"), f.sum(nbytes)).collect()
    return int(totals[0]), int(totals[1] or 0)


def cpu_seconds_of_family() -> float:
    """The CPU seconds of this process and all its descendants so far."""
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid = int(stat.parent.name)
        # These times include the ended children of the process.
        ticks[pid] = sum(int(field) for field in fields[11:15])
        children.setdefault(int(fields[1]), []).append(pid)
    family = [os.getpid()]
    for pid in family:
        family += children.get(pid, [])
    return sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Read twice, and print the figures of the second reading."""
    order = _parse(sys.argv[1:])
    usable = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, usable[: order.cores])
    spark = _session(order)
    rows = _rows(spark, order)
    for _ in range(READINGS - 1):
        _read(rows)
    broker = read_usage(order.broker_pid).cpu_seconds
    cpu, began = cpu_seconds_of_family(), time.perf_counter()
    count, nbytes = _read(rows)
    figures = {
        "seconds": time.perf_counter() - began,
        "cpu_s": cpu_seconds_of_family() - cpu,
        "broker_cpu_s": read_usage(order.broker_pid).cpu_seconds - broker,
        "rows": count,
        "bytes": nbytes,
    }
    spark.stop()
    sys.stdout.write(json.dumps(figures))


if __name__ == "__main__":
    main()
