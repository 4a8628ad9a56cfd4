"""Plans by chance: ways to come to a topic's records in Spark, to keep them, and to ask of them.

A plan comes to the records by a frame or by views, or goes on with what the plan before it has left
behind, which was planned under other settings. It may cache them. Then it asks: in SQL, by frames
that are derived from one, of one frame again and again, of a part that is cached, and in some plans
by a stream beside which it asks more. DuckDB, which has the records from elsewhere, is asked the
same.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import NamedTuple, cast

import duckdb
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, functions as f
from pyspark.sql.streaming.query import StreamingQuery

from tierlog.pipeline.spark.tables.statements import execute, query, session_settings
from tierlog.pipeline.spark.topic_views import register_topics
from tierlog.tests.pipeline.spark.streaming.plan_settings import Settings, with_others
from tierlog.tests.pipeline.spark.streaming.random_queries import RandomQueries, Range
from tierlog.tests.pipeline.spark.tiers import TierPlace

Row = tuple[object, ...]

TOPIC = "orders"
COLUMNS = ("partition", "number", "key", "ms", "size")
SELECTED = ", ".join(COLUMNS)
SHOWN = (
    *("topic", "partition", "offset AS number", "decode(key, 'utf-8') AS key", "timestamp"),
    *("unix_millis(timestamp) AS ms", "CAST(octet_length(value) AS BIGINT) AS size"),
)
"""The columns of `records`, of those that `format("tierlog")` has."""
GLOBAL_DATABASE = "spark.sql.globalTempDatabase"
STREAMS = 0.25
"""How many of the plans have a stream: it takes longer than all else."""
STREAM_WITHIN_S = 120

JOINS = {"inner": "", "left": "LEFT", "left_semi": "SEMI", "left_anti": "ANTI"}
"""Joins of frames, and DuckDB's words for them."""
SETS: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    "UNION ALL": DataFrame.unionByName,
    "INTERSECT": DataFrame.intersect,
    "EXCEPT": DataFrame.subtract,
    "EXCEPT ALL": DataFrame.exceptAll,
}


class Topic(NamedTuple):
    """A topic in the tier, and what another reader has found in it."""

    place: TierPlace
    read: duckdb.DuckDBPyConnection
    """Its view `records` has the columns of SHOWN."""
    spans: Range


class RandomPlans:
    """Runs plans, the same ones for the same seed; each is right or raises AssertionError."""

    def __init__(self, spark: SparkSession, topic: Topic, seed: str) -> None:
        self.answers = 0
        """How many answers were compared."""
        self.streams = 0
        self.cached = 0
        """How many plans had all of the records in a cache."""
        self._spark = spark
        self._topic = topic
        self._seed = seed
        self._name = ""
        self._found_some = False
        self._begin(Random(seed))
        self._load()

    def _begin(self, chance: Random) -> None:
        self._chance = chance
        self._queries = RandomQueries(chance, self._topic.spans)

    def run(self, number: int, switches: Settings) -> bool:
        """Run one plan under these settings; whether any of its answers has something in it."""
        self._begin(Random(f"{self._seed} {number}"))
        settings = with_others(switches, self._chance)
        self._name = f"plan {number} of seed {self._seed}, {settings}"
        self._found_some = False
        ways = (self._load, self._load_for_all, self._register, self._register_for_all)
        acts = (self._ask, self._ask_again, self._ask_derived, self._keep_part)
        with session_settings(self._spark, settings):
            if self._chance.random() < 0.7:
                self._chance.choice(ways)()
            self._keep()
            self.cached += self._frame.is_cached
            self._chance.choice(acts)()
            if self._chance.random() < STREAMS:
                self._stream()
            else:
                self._ask()
        return self._found_some

    def close(self) -> None:
        """Leave no caches behind."""
        self._spark.catalog.clearCache()

    # How it comes to the records.

    def _load(self) -> None:
        self._show(self._spark.read.format("tierlog").options(**self._options()).load())

    def _load_for_all(self) -> None:
        loaded = self._spark.read.format("tierlog").options(**self._options()).load()
        loaded.createOrReplaceGlobalTempView("loaded")
        self._show(self._spark.table(f"{self._spark.conf.get(GLOBAL_DATABASE)}.loaded"))

    def _register(self) -> None:
        url = self._topic.place.url
        views = register_topics(self._spark, url, TOPIC, minPartitions=self._partitions())
        if self._chance.random() < 0.5:
            views.refresh()
        self._show(self._spark.table(TOPIC))

    def _register_for_all(self) -> None:
        register_topics(self._spark, self._topic.place.url, TOPIC, is_global=True)
        view = f"{self._spark.conf.get(GLOBAL_DATABASE)}.{TOPIC}"
        if self._chance.random() < 0.5:
            self._show(query(self._spark, f"SELECT * FROM {view}"))
        else:
            # A view that keeps the words of its query, and not what they meant at first.
            statement = f"CREATE OR REPLACE TEMPORARY VIEW records AS SELECT {', '.join(SHOWN)}"
            execute(self._spark, f"{statement} FROM {view}")
            self._frame = self._spark.table("records")

    def _options(self) -> dict[str, str]:
        return self._topic.place.options(TOPIC, minPartitions=self._partitions())

    def _partitions(self) -> str:
        return str(self._chance.choice((1, 1, 6)))

    def _show(self, loaded: DataFrame) -> None:
        loaded.selectExpr(*SHOWN).createOrReplaceTempView("records")
        self._frame = self._spark.table("records")

    # How it keeps them.

    def _keep(self) -> None:
        """Cache all records, in one of Spark's ways, or not; or leave the cache there is."""
        ways: tuple[Callable[[], object], ...] = (
            self._spark.catalog.clearCache,
            self._frame.unpersist,
            self._frame.cache,
            lambda: self._frame.persist(StorageLevel.DISK_ONLY),
            lambda: execute(self._spark, "CACHE TABLE records"),
            lambda: execute(self._spark, "CACHE LAZY TABLE records"),
            lambda: execute(self._spark, "UNCACHE TABLE IF EXISTS records"),
            self._frame.count,
        )
        self._chance.choice(ways)()

    # What it asks.

    def _ask(self) -> None:
        asked = self._queries.query()
        self._compare(query(self._spark, asked), asked)

    def _ask_again(self) -> None:
        """One frame is counted, read, narrowed and read again."""
        asked = self._rows()
        kept = query(self._spark, asked)
        self._same([(kept.count(),)], f"SELECT count(*) FROM ({asked}) t")
        narrower = self._queries.condition()
        for _ in range(2):
            self._compare(kept.select(*COLUMNS), f"SELECT {SELECTED} FROM ({asked}) t")
            self._compare(
                kept.where(narrower).select(*COLUMNS),
                f"SELECT {SELECTED} FROM ({asked}) t WHERE {narrower}",
            )

    def _ask_derived(self) -> None:
        """Two frames that come from one meet again."""
        conditions = self._queries.condition(), self._queries.condition()
        first, second = (self._frame.where(each) for each in conditions)
        one, other = (f"(SELECT * FROM records WHERE {each})" for each in conditions)
        if self._chance.random() < 0.5:
            word = self._chance.choice(tuple(SETS))
            found = SETS[word](first.select(*COLUMNS), second.select(*COLUMNS))
            self._compare(
                found, f"SELECT {SELECTED} FROM {one} a {word} SELECT {SELECTED} FROM {other} b"
            )
            return
        kind = self._chance.choice(tuple(JOINS))
        shift = self._chance.randrange(200)
        on = f"a.partition = b.partition AND a.number = b.number + {shift}"
        columns = ["a.partition", "a.number", "a.key", "a.ms"]
        if kind in ("inner", "left"):
            columns += ["b.number", "b.size"]
        joined = first.alias("a").join(second.alias("b"), f.expr(on), kind).selectExpr(*columns)
        asked = f"{one} a {JOINS[kind]} JOIN {other} b ON {on}"
        self._compare(joined, f"SELECT {', '.join(columns)} FROM {asked}")

    def _keep_part(self) -> None:
        """A part of the records is cached, and others are asked for meanwhile and afterwards."""
        condition, other = self._queries.condition(), self._queries.condition()
        levels = (StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_AND_DISK, StorageLevel.DISK_ONLY)
        part = self._frame.where(condition).persist(self._chance.choice(levels))
        if self._chance.random() < 0.5:
            part.count()
        part_rows = f"SELECT {SELECTED} FROM records WHERE ({condition})"
        self._compare(part.where(other).select(*COLUMNS), f"{part_rows} AND ({other})")
        self._compare(
            self._frame.where(other).select(*COLUMNS),
            f"SELECT {SELECTED} FROM records WHERE {other}",
        )
        part.unpersist()
        self._compare(part.select(*COLUMNS), part_rows)

    def _stream(self) -> None:
        """A stream of the tier reads what there is, while the plan goes on asking."""
        self.streams += 1
        condition = self._queries.condition()
        expected = f"SELECT {SELECTED} FROM records WHERE ({condition})"
        is_bounded = self._chance.random() < 0.5
        options = {**self._options(), "startingOffsets": "earliest"}
        if is_bounded:
            options["maxOffsetsPerTrigger"] = "5000"
        loaded = self._spark.readStream.format("tierlog").options(**options).load()
        stream = loaded.selectExpr(*SHOWN).where(condition).select(*COLUMNS)
        if self._chance.random() < 0.5:
            other = self._queries.condition()
            there = self._frame.where(other).select("partition", "number")
            stream = stream.join(there, ["partition", "number"]).select(*COLUMNS)
            expected += f" AND ({other})"
        writer = stream.writeStream
        writer = (
            writer.trigger(processingTime="0 seconds")
            if is_bounded
            else writer.trigger(availableNow=True)
        )
        if self._chance.random() < 0.5:
            running = writer.format("memory").queryName("arrived").start()
            self._finish(running, is_bounded=is_bounded)
            self._compare(self._spark.table("arrived"), expected)
            self._spark.catalog.dropTempView("arrived")
            return
        batches = Batches(self._chance.randrange(self._topic.spans.numbers))
        running = writer.foreachBatch(batches.take).start()
        self._finish(running, is_bounded=is_bounded)
        self._same(batches.rows, expected)
        self._same(batches.later_rows, f"{expected} AND number >= {batches.number}")
        self._same([(batches.count,)], f"SELECT count(*) FROM ({expected}) t")

    def _finish(self, running: StreamingQuery, *, is_bounded: bool) -> None:
        try:
            self._ask()
            if is_bounded:
                running.processAllAvailable()
            else:
                assert running.awaitTermination(STREAM_WITHIN_S), self._name
        finally:
            running.stop()

    def _rows(self) -> str:
        return f"SELECT * FROM records WHERE {self._queries.condition()}"

    def _compare(self, found: DataFrame, asked: str) -> None:
        self._same(cast("list[Row]", found.collect()), asked)

    def _same(self, found: list[Row], asked: str) -> None:
        """Check rows against DuckDB's answer to the same question."""
        self.answers += 1
        expected = self._topic.read.execute(asked).fetchall()
        ours, theirs = Counter(map(tuple, found)), Counter(cast("list[Row]", expected))
        more, missing = list((ours - theirs).elements()), list((theirs - ours).elements())
        assert not more, f"{self._name}: {len(more)} too many, {more[:3]}: {asked}"
        assert not missing, f"{self._name}: {len(missing)} are missing, {missing[:3]}: {asked}"
        self._found_some |= any(any(row) for row in expected)


class Batches:
    """What the micro-batches of a stream had in them; each is read three times."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.rows: list[Row] = []
        self.later_rows: list[Row] = []
        """Those from this number on."""
        self.count = 0

    def take(self, batch: DataFrame, _: int) -> None:
        """Read one micro-batch."""
        self.later_rows += cast("list[Row]", batch.where(f"number >= {self.number}").collect())
        self.rows += cast("list[Row]", batch.collect())
        self.count += batch.count()
