"""Reads a topic once more than it needs, and measures the last reading.

The reader is Spark, directly from the tier or through the broker, or DuckDB or Polars over
`tierlog.tables.scan`. Everything of it (JVM, Python workers, threads) is limited to some cores, so
that the cost per row is comparable, whichever process does the work. A first, untimed reading
lets the JVM compile. The query counts rows and sums the sizes of keys and values, so that all of
them are decoded.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ..processes.process_usage import cpu_seconds_of_family, read_usage

if TYPE_CHECKING:
    from ....pipeline.tables.topic_scan import TopicScan

READINGS = 2
"""The number of readings, of which the first is not timed."""


class _Order(NamedTuple):
    reader: str
    cores: int
    options: Mapping[str, str]
    broker_pid: int


Read = Callable[[], tuple[int, int]]
"""Reads all rows; returns their number, and the bytes of keys and values."""


def _parse(arguments: list[str]) -> _Order:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", choices=_READERS)
    parser.add_argument("--cores", type=int, required=True)
    parser.add_argument("--options", required=True, help="the source's options, as JSON")
    parser.add_argument("--broker-pid", type=int, required=True)
    stated = parser.parse_args(arguments)
    options = cast("dict[str, str]", json.loads(stated.options))
    return _Order(stated.reader, stated.cores, options, stated.broker_pid)


def _spark(order: _Order) -> Read:
    from pyspark.sql import functions as f

    from ....pipeline.spark.session import spark_session
    from ....pipeline.spark.source import TierlogDataSource

    jars = ("kafka",) if order.reader == "connector" else ()
    spark = spark_session("tier-reading", master=f"local[{order.cores}]", jars=jars)
    spark.dataSource.register(TierlogDataSource)
    form = "kafka" if order.reader == "connector" else "tierlog"
    rows = spark.read.format(form).options(**order.options).load()
    nbytes = f.coalesce(f.length("key"), f.lit(0)) + f.coalesce(f.length("value"), f.lit(0))

    def read() -> tuple[int, int]:
        (totals,) = rows.select(f.count("*"), f.sum(nbytes)).collect()
        return int(totals[0]), int(totals[1] or 0)

    return read


def _scan(order: _Order) -> "TopicScan":
    from ....tables import scan

    options = dict(order.options)
    url, topic = options.pop("path"), options.pop("topic")
    (ends,) = json.loads(options.pop("endingOffsets")).values()
    storage = {name.removeprefix("storage."): value for name, value in options.items()}
    end = {int(partition): offset for partition, offset in ends.items()}
    return scan(url, topic, columns=["key", "value"], end=end, storage_options=storage)


def _duckdb(order: _Order) -> Read:
    # The package has no usable type hints.
    query = cast("Any", import_module("duckdb")).sql

    def read() -> tuple[int, int]:
        _rows = _scan(order)  # DuckDB finds it by its name
        (totals,) = query(
            "select count(*), sum(coalesce(octet_length(key), 0)"
            " + coalesce(octet_length(value), 0)) from _rows"
        ).fetchall()
        return int(totals[0]), int(totals[1] or 0)

    return read


def _polars(order: _Order) -> Read:
    import polars as pl

    def read() -> tuple[int, int]:
        nbytes = [pl.col(name).bin.size().fill_null(0).sum() for name in ("key", "value")]
        totals = _scan(order).polars().select(pl.len(), *nbytes).collect().row(0)
        return int(totals[0]), int(totals[1]) + int(totals[2])

    return read


_READERS: Mapping[str, Callable[[_Order], Read]] = {
    "direct": _spark,
    "connector": _spark,
    "duckdb": _duckdb,
    "polars": _polars,
}


def main() -> None:
    """Read twice, and print the figures of the second reading."""
    order = _parse(sys.argv[1:])
    usable = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, usable[: order.cores])
    read = _READERS[order.reader](order)
    for _ in range(READINGS - 1):
        read()
    broker = read_usage(order.broker_pid).cpu_seconds
    cpu, began = cpu_seconds_of_family(), time.perf_counter()
    count, nbytes = read()
    figures = {
        "seconds": time.perf_counter() - began,
        "cpu_s": cpu_seconds_of_family() - cpu,
        "broker_cpu_s": read_usage(order.broker_pid).cpu_seconds - broker,
        "rows": count,
        "bytes": nbytes,
    }
    sys.stdout.write(json.dumps(figures))


if __name__ == "__main__":
    main()
