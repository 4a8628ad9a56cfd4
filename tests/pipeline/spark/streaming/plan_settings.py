"""Spark's settings on which it depends how a scan of a tier is planned, shared, reused and cached.

Each setting that switches something of a scan is on or off, and the tests use all combinations.
Beside them are settings that change less, which a plan has by chance.

Not here is what cannot meet a Python source in Spark 4.1. Its scan takes no filters while it runs,
so dynamic partition pruning never touches it, and it has no statistics, so neither does the
cost-based optimizer. `MergeScalarSubqueries` merges only scans that are equal, which two of it
never are. Common table expressions are inlined whatever the settings say.
"""

from collections.abc import Mapping
from itertools import combinations, product
from random import Random
from typing import NamedTuple

Settings = Mapping[str, str]


class Setting(NamedTuple):
    """A setting with the values that the tests give to it; the first is Spark's default."""

    name: str
    values: tuple[str, ...]


PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

SWITCHES = (
    # Spark then asks the reader for filters, and keeps what it has planned with them.
    Setting(PUSHDOWN, ("false", "true")),
    # A shuffle of the same rows happens once in a query. Two scans of a tier are never the same for
    # Spark, but two scans of a cached one are.
    Setting("spark.sql.exchange.reuse", ("true", "false")),
    # So does a scalar subquery.
    Setting("spark.sql.execution.reuseSubquery", ("true", "false")),
    # Stages are planned again while the query runs, and are what is shared.
    Setting("spark.sql.adaptive.enabled", ("true", "false")),
    # One side of a join goes to all tasks, or both are shuffled by its keys. Without statistics the
    # scan of a tier counts as large, until it is cached or adaptive execution has seen its rows.
    Setting("spark.sql.autoBroadcastJoinThreshold", (str(10 << 20), "-1")),
    # Compiled code takes the rows out of the Arrow batches and the cache's columns, or each
    # operator does by itself.
    Setting("spark.sql.codegen.wholeStage", ("true", "false")),
)

BESIDE = (
    # How PySpark cuts rows into batches; it leaves those of this source alone, which are Arrow's.
    Setting("spark.sql.execution.arrow.maxRecordsPerBatch", ("10000", "7")),
    # How a cache is written and read: adaptive plans below it, its columns and their statistics.
    Setting("spark.sql.optimizer.canChangeCachedPlanOutputPartitioning", ("true", "false")),
    Setting("spark.sql.inMemoryColumnarStorage.enableVectorizedReader", ("true", "false")),
    Setting("spark.sql.inMemoryColumnarStorage.partitionPruning", ("true", "false")),
    Setting("spark.sql.inMemoryColumnarStorage.batchSize", ("10000", "100")),
    # A join reads one side twice, first for a filter on the other: only if one side is small.
    Setting("spark.sql.optimizer.runtime.bloomFilter.enabled", ("true", "false")),
    # What a condition means: it is the same for whole numbers, plain text and points in time.
    Setting("spark.sql.ansi.enabled", ("true", "false")),
    Setting("spark.sql.session.timeZone", ("UTC", "Asia/Kolkata")),
)


def every_combination() -> list[Settings]:
    """Of all switches with each other."""
    names = [switch.name for switch in SWITCHES]
    return [
        dict(zip(names, values, strict=True))
        for values in product(*(switch.values for switch in SWITCHES))
    ]


def few_combinations() -> list[Settings]:
    """As many as it takes for each two switches to meet with all of their values."""
    wanted = {pair for each in every_combination() for pair in _pairs(each)}
    chosen: list[Settings] = []
    while wanted:
        most = max(every_combination(), key=lambda each: len(wanted & _pairs(each)))
        chosen.append(most)
        wanted -= _pairs(most)
    return chosen


def _pairs(settings: Settings) -> set[tuple[tuple[str, str], tuple[str, str]]]:
    return set(combinations(settings.items(), 2))


def with_others(switches: Settings, chance: Random) -> Settings:
    """The switches, and beside them the other settings by chance."""
    return {**switches, **{name: chance.choice(values) for name, values in BESIDE}}
