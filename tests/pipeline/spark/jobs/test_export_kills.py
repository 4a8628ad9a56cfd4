"""An export that is killed: a process of its own, with SIGKILL, at moments that chance chooses, of
which some are those when files of rows lie there that belong to no commit.

`TIERLOG_EXPORT_KILLS` says how many times; in a usual run each format has one. After every kill no
reader may see a record twice, and once a job was let go to its end, each record is there once. A
job that came to its end before it could be killed does not count as killed.
"""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, cast
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession

from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.pipeline.spark.jobs.export import ExportSettings
from tierlog.tests.pipeline.spark.exports import (
    BUCKET_CATALOG,
    FORMATS,
    TieredTopic,
    assert_holds_each_once,
    bucket_for_tables,
    goal_of,
    rows_of,
    run_export,
    table_name,
    tiered_topic_of_two,
)
from tierlog.tests.pipeline.spark.exports_on_disk import Moment, OnDisk, on_disk, row_files
from tierlog.tests.pipeline.spark.small_spark import SMALL_SPARK
from tierlog.tests.pipeline.spark.tiers import TierPlace
from tierlog.tests.tiering.servers.s3 import BUCKET, VersityGateway
from tierlog.tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.requires("java")]

KILLS = int(os.environ.get("TIERLOG_EXPORT_KILLS", "1"))
RECORDS_PER_COMMIT = 800
END_TIMEOUT_S = 240
ENOUGH_FOR_CHANCE = 20
"""So many kills cannot all fall into the same moment of a job's work."""
COMMITS = 3
LIVES = 0.5
"""A job is killed at most so much of its start-up time after it began, or after one of its first
commits: whatever else the machine has to do, some come far and some do not."""
AIMED = 0.25
"""So many are killed as soon as a new file of rows is there, a moment that chance seldom meets."""


@pytest.fixture(
    scope="module", params=["folder", pytest.param("s3", marks=pytest.mark.requires("go"))]
)
def topic(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TieredTopic]:
    """In a folder or in S3; its tables are where it is."""
    place = None
    if request.param == "s3":
        server = cast("VersityGateway", request.getfixturevalue("s3"))
        options = cast("dict[str, str]", dict(server.location.options))
        place = TierPlace(f"s3://{BUCKET}/{uuid4().hex}", options)
    with tiered_topic_of_two(tmp_path_factory.mktemp("kills"), "orders", place) as found:
        yield found


class Shelf(NamedTuple):
    """Where the tables of a format are: as Spark names it, and on the disk."""

    where: Path | str
    warehouse: str
    on_disk: Path
    warehouse_on_disk: Path


@pytest.fixture
def shelf(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    topic: TieredTopic,
    warehouse: Path,
    tmp_path: Path,
) -> Shelf:
    if not topic.place.url.startswith("s3:"):
        return Shelf(tmp_path, str(warehouse), tmp_path, warehouse)
    server = cast("VersityGateway", request.getfixturevalue("s3"))
    url = bucket_for_tables(spark, server)
    bucket = server.directory / "buckets" / BUCKET
    name = url.rpartition("/")[2]
    return Shelf(url, f"s3a://{BUCKET}/lake", bucket / name, bucket / "lake")


class KilledTable:
    """A table that jobs are killed over, and another one as soon as it holds everything."""

    def __init__(self, kind: str, shelf: Shelf) -> None:
        self._kind = kind
        self._shelf = shelf
        self.number = 0

    @property
    def title(self) -> str:
        place = "" if isinstance(self._shelf.where, Path) else "_in_s3"
        return f"killed{self.number}{place}"

    def arguments(self, topic: TieredTopic) -> Sequence[str]:
        """What makes a job of it, in many small commits and a compaction."""
        name = table_name(self._kind, self._shelf.where, self.title)
        return [
            *topic.place.arguments,
            *("--topic", topic.name, "--format", self._kind),
            # A job has one catalog, and calls it by this name wherever it is.
            *("--table", name.replace(f"{BUCKET_CATALOG}.", "lake.")),
            *("--warehouse", self._shelf.warehouse),
            *("--records-per-commit", str(RECORDS_PER_COMMIT), "--compact"),
            *("--master", "local[2]"),
            *(word for each in SMALL_SPARK.items() for word in ("--conf", "=".join(each))),
        ]

    @property
    def folder(self) -> Path:
        is_iceberg = self._kind == "iceberg"
        shelf = self._shelf
        return (shelf.warehouse_on_disk / "exports" if is_iceberg else shelf.on_disk) / self.title

    def on_disk(self) -> OnDisk:
        return on_disk(self._kind, self.folder)


def run_and_kill(table: KilledTable, topic: TieredTopic, chance: random.Random) -> bool:
    """Run the job, kill it with its JVM at some moment of its work; whether it was still alive."""
    command = [sys.executable, "-m", "tierlog.pipeline.spark", "export", *table.arguments(topic)]
    is_aimed = chance.random() < AIMED
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as job:
        assert job.stdout is not None
        output: list[str] = []
        clock = SystemEnvironment()
        started_ms, ready_ms = clock.wall_clock_ms(), 0
        # It lists what it will do, and a line follows for each commit.
        commits = chance.randrange(COMMITS)
        for line in job.stdout:
            output.append(line)
            ready_ms = ready_ms or clock.wall_clock_ms()
            commits -= line.startswith("commit ")
            if commits <= 0 and line.startswith(("partition", "it holds", "commit ")):
                break
        if is_aimed:
            before = row_files(table.folder)
            wait_until(
                lambda: job.poll() is not None or bool(row_files(table.folder) - before),
                END_TIMEOUT_S,
                "the job neither writes nor ends",
            )
        else:
            with suppress(subprocess.TimeoutExpired):
                job.wait(chance.uniform(0, LIVES * (ready_ms - started_ms) / 1000))
        code = job.poll()
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait(END_TIMEOUT_S)
    assert code in (None, 0), "".join(output)
    return code is None


def assert_nothing_twice(rows: DataFrame) -> None:
    twice = rows.groupBy("partition", "offset").count().where("count > 1")
    assert twice.head(1) == []


@pytest.mark.timeout(600 + 180 * KILLS)
@pytest.mark.parametrize("kind", FORMATS)
def test_a_killed_job_is_run_again_and_each_record_is_there_once(
    spark: SparkSession, topic: TieredTopic, shelf: Shelf, kind: str
) -> None:
    chance = random.Random(f"{kind} {KILLS}")
    ends = topic.place.end_offsets(topic.name)
    table = KilledTable(kind, shelf)
    moments: Counter[Moment] = Counter()
    jobs = 0
    while moments.total() < KILLS:
        jobs += 1
        assert jobs <= 3 * KILLS, f"jobs end before they can be killed: {moments}"
        before = table.on_disk()
        goal = goal_of(spark, kind, shelf.where, table.title)
        if run_and_kill(table, topic, chance):
            after = table.on_disk()
            moments[after.moment(before)] += 1
            print(f"{kind}, kill {moments.total()}: {after.moment(before).value}", flush=True)
            if after.commits > 1:
                assert_nothing_twice(rows_of(spark, kind, goal))
        else:
            # Nothing is left to be killed in: the next one begins with an empty table.
            assert_holds_each_once(rows_of(spark, kind, goal), ends)
            table.number += 1
    goal = goal_of(spark, kind, shelf.where, table.title)
    assert run_export(spark, topic, goal, ExportSettings(compact=True)) == ends
    assert_holds_each_once(rows_of(spark, kind, goal), ends)
    counts = ", ".join(f"{count} {moment.value}" for moment, count in moments.items())
    print(f"{kind}: {jobs} jobs, {KILLS} killed before their end: {counts}", flush=True)
    if KILLS >= ENOUGH_FOR_CHANCE:
        assert moments[Moment.WRITING] > 0
        assert len(moments) > 1
