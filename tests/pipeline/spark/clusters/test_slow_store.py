"""A store so slow that Spark runs tasks twice: only one attempt of each is in the table."""

import json
import random
from pathlib import Path
from uuid import uuid4

import pytest

from tierlog.bench.harness.peers.slow_proxy import Link, SlowProxy
from tierlog.bench.harness.requests.probe import free_port
from tierlog.tests.pipeline.spark.clusters.driver import CONF, Driver
from tierlog.tests.pipeline.spark.clusters.judged_rows import assert_rows_are, consumed_file
from tierlog.tests.pipeline.spark.clusters.mixed_topic import mixed_topic
from tierlog.tests.pipeline.spark.clusters.story_size import RECORDS, SEED, TIMEOUT_S
from tierlog.tests.pipeline.spark.exports_on_disk import row_files
from tierlog.tests.pipeline.spark.spark_cluster import SparkCluster
from tierlog.tests.pipeline.spark.tiers import TierPlace
from tierlog.tests.tiering.servers.s3 import BUCKET, VersityGateway

pytestmark = [
    pytest.mark.long,
    pytest.mark.requires("java", "go"),
    pytest.mark.timeout(TIMEOUT_S),
]

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.25",
    "spark.speculation.minTaskRuntime": "50ms",
}


def tasks_run_twice(events: Path) -> int:
    """Attempts that Spark began because another of the same task was slow."""
    lines = [line for file in events.rglob("*") if file.is_file() for line in file.open()]
    ended = [json.loads(line) for line in lines if "SparkListenerTaskEnd" in line]
    return sum(each["Task Info"]["Speculative"] for each in ended)


def test_no_row_is_there_twice_though_tasks_run_twice(
    s3: VersityGateway, tmp_path: Path, chance: random.Random
) -> None:
    """One partition has nearly everything, so its task is the slow one."""
    options = {name: str(text) for name, text in s3.location.options.items()}
    place = TierPlace(f"s3://{BUCKET}/{uuid4().hex}", options)
    link = Link(latency_ms=100, mb_per_s=max(1.0, RECORDS / 16_000))
    proxy = SlowProxy(free_port(), s3.port, link)
    folder, events = tmp_path / "table", tmp_path / "events"
    events.mkdir()
    slow = {**options, "endpoint_url": f"http://127.0.0.1:{proxy.port}"}
    with (
        mixed_topic(tmp_path, "mixed", RECORDS, SEED, place=place) as topic,
        proxy,
        SparkCluster(tmp_path, workers=2, cores=2) as cluster,
    ):
        arguments = (
            *("export", *TierPlace(place.url, slow).arguments, "--topic", topic.name),
            *("--format", "parquet", "--table", str(folder), "--master", cluster.master, *CONF),
            *(word for each in SPECULATION.items() for word in ("--conf", "=".join(each))),
            *("--conf", "spark.eventLog.enabled=true", "--conf", "spark.eventLog.compress=false"),
            *("--conf", "spark.eventLog.rolling.enabled=false"),
            *("--conf", f"spark.eventLog.dir={events.as_uri()}"),
        )
        with Driver.of_module(tmp_path, "tierlog.pipeline.spark", *arguments) as job:
            job.finish()
        twice = tasks_run_twice(events)
        print(f"{twice} tasks ran twice")
        assert twice > 0, "no task was slow"
        expected = consumed_file(topic, tmp_path / "expected.parquet")
        files = [folder / each for each in row_files(folder) if not each.startswith("_")]
        assert assert_rows_are(expected, files) > 0
