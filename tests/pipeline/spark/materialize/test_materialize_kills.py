"""A materialize job that is killed: a process of its own, with SIGKILL to it and to its JVM.

Chance chooses the moments.

`TIERLOG_MATERIALIZE_KILLS` says how many times; in a usual run each format has one. After every
kill no table holds a record twice or lacks one below another of its partition, and after a run that
was let go to its end each table holds what the tier does.
"""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.tests.pipeline.spark.exports import FORMATS
from tierlog.tests.pipeline.spark.materialize.lake import Lake
from tierlog.tests.pipeline.spark.small_spark import SMALL_SPARK

pytestmark = [pytest.mark.long, pytest.mark.requires("java")]

KILLS = int(os.environ.get("TIERLOG_MATERIALIZE_KILLS", "1"))
END_TIMEOUT_S = 240
TOPICS = ("orders", "refunds", "stock")
SEGMENT = 60
COMMIT = 25


def run_and_kill(lake: Lake, warehouse: Path, chance: random.Random, *words: str) -> bool:
    """Run the job in rounds, kill it with its JVM; whether it was killed in its first rounds."""
    options = [word for each in SMALL_SPARK.items() for word in ("--conf", "=".join(each))]
    command = [
        *(sys.executable, "-m", "tierlog.pipeline.spark"),
        *lake.arguments("--pattern", ".*", "--every", "1ms", "--warehouse", str(warehouse)),
        *("--records-per-commit", str(COMMIT), "--master", "local[2]", *options, *words),
    ]
    clock = SystemEnvironment()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as job:
        assert job.stdout is not None
        started_ms = clock.wall_clock_ms()
        topics_before = chance.randrange(len(TOPICS))
        for line in job.stdout:
            topics_before -= " of about " in line
            if topics_before <= 0 or line.startswith("round "):
                break
        # A machine that is slow to begin is slow to commit as well.
        took_s = (clock.wall_clock_ms() - started_ms) / 1000
        with suppress(subprocess.TimeoutExpired):
            job.wait(chance.uniform(0, took_s / 3))
        code = job.poll()
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait(END_TIMEOUT_S)
    return code is None


@pytest.mark.timeout(600 + 180 * KILLS)
@pytest.mark.parametrize("kind", FORMATS)
def test_a_killed_job_is_run_again_and_each_table_holds_each_record_once(
    spark: SparkSession, tmp_path: Path, warehouse: Path, kind: str
) -> None:
    chance = random.Random(f"materialize {kind} {KILLS}")
    lake = Lake(spark, kind, tmp_path)
    ends = dict.fromkeys(TOPICS, 0)
    for kill in range(1, KILLS + 1):
        for topic in TOPICS:
            lake.put(topic, (ends[topic], ends[topic] + SEGMENT - 1))
            ends[topic] += SEGMENT
        assert run_and_kill(lake, warehouse, chance), "the job ended although nothing stopped it"
        # Parquet shows the files of the newest commit once the next job has moved them.
        reached = {
            topic: sum(state.offsets.values()) if (state := lake.state(topic)) else 0
            for topic in TOPICS
        }
        print(f"{kind}, kill {kill}: the tables end at {reached} of {ends}", flush=True)
        for topic, end in reached.items():
            assert not end or lake.offsets(topic) == list(range(end))
    assert lake.run("--pattern", ".*") == 0
    for topic, end in ends.items():
        assert lake.offsets(topic) == list(range(end))


def newest(log: Sequence[tuple[bytes, bytes | None]]) -> dict[bytes, bytes]:
    """The newest value of each key in a log, without those that were deleted."""
    return {key: value for key, value in dict(log).items() if value is not None}


@pytest.mark.timeout(600 + 180 * KILLS)
@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_killed_upsert_is_run_again_and_each_table_holds_the_newest_of_each_key(
    spark: SparkSession, tmp_path: Path, warehouse: Path, kind: str
) -> None:
    chance = random.Random(f"upsert {kind} {KILLS}")
    lake = Lake(spark, kind, tmp_path)
    log: list[tuple[bytes, bytes | None]] = []
    for kill in range(1, KILLS + 1):
        records = [
            (b"%d" % chance.randrange(20), chance.choice([None, b"%d" % n, b"%d" % n]))
            for n in range(len(log), len(log) + 4 * COMMIT)
        ]
        for topic in TOPICS:
            lake.put_records(topic, len(log), *records)
        log += records
        assert run_and_kill(lake, warehouse, chance, "--upsert"), "nothing stopped the job"
        ends = {
            topic: sum(state.offsets.values()) if (state := lake.state(topic)) else 0
            for topic in TOPICS
        }
        print(f"{kind}, kill {kill}: the tables end at {ends} of {len(log)}", flush=True)
        for topic, end in ends.items():
            assert not end or lake.values(topic) == newest(log[:end])
    assert lake.run("--pattern", ".*", "--upsert") == 0
    for topic in TOPICS:
        assert lake.values(topic) == newest(log)
