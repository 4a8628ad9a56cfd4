"""A topic that is deleted and created again is another one: no export mixes the two in a table."""

import json
import shutil
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tierlog.clients.kafka_uuid import Uuid, uuid_to_string
from tierlog.pipeline.spark.jobs.export import Export, ExportSettings
from tierlog.pipeline.spark.tables.export_state import NOTHING, ExportError
from tierlog.tests.pipeline.spark.exports import FORMATS, goal_of, rows_of
from tierlog.tests.pipeline.spark.folder_exports import export, source_of
from tierlog.tests.pipeline.spark.folder_tier import Tier
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tiering.tools.terminal import Output

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]

# The other formats take their libraries and more time.
KINDS = [
    kind if kind == "parquet" else pytest.param(kind, marks=pytest.mark.long) for kind in FORMATS
]

AGAIN = PARTITION._replace(topic_id=Uuid(b"the second topic"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_takes_no_rows_of_the_topic_that_came_after_its_own(
    spark: SparkSession, tier: Tier, tmp_path: Path, kind: str
) -> None:
    goal = goal_of(spark, kind, tmp_path, "recreated")
    export(spark, tier, goal)
    # The old topic's segments are still there, and the new one is longer already.
    tier.bucket.put(2, (0, 199), partition=AGAIN)
    tier.write()
    for settings in (ExportSettings(), ExportSettings(dry_run=True, accept_loss=True)):
        with pytest.raises(ExportError, match="export it to another table") as refused:
            export(spark, tier, goal, settings)
        for each in (PARTITION, AGAIN):
            assert uuid_to_string(each.topic_id) in str(refused.value)
    assert rows_of(spark, kind, goal).count() == 100
    # Another table takes the new topic, from its beginning.
    other = goal_of(spark, kind, tmp_path, "anew")
    export(spark, tier, other)
    assert rows_of(spark, kind, other).count() == 200


def test_a_topic_that_is_created_again_while_an_export_runs_ends_it(
    spark: SparkSession, tier: Tier, tmp_path: Path
) -> None:
    goal = goal_of(spark, "parquet", tmp_path, "overtaken")
    source = source_of(tier)
    ranges = source.ranges()
    tier.bucket.put(2, (0, 199), partition=AGAIN)
    tier.write()
    with pytest.raises(PySparkException, match="topic 'orders' was deleted and created again"):
        Export(spark, source, goal, Output(as_json=False)).run(ranges, ExportSettings())
    assert goal.state() == NOTHING


def test_a_table_of_an_export_that_knew_no_ids_takes_on_the_one_it_finds(
    spark: SparkSession, tier: Tier, tmp_path: Path
) -> None:
    goal = goal_of(spark, "parquet", tmp_path, "older")
    export(spark, tier, goal)
    (commit,) = (tmp_path / "older" / "_tierlog" / "commits").glob("*.json")
    manifest = json.loads(commit.read_text())
    del manifest["exported"]["topicIds"]
    commit.write_text(json.dumps(manifest))
    (commit.parent / f".{commit.name}.crc").unlink(missing_ok=True)

    tier.bucket.put(2, (100, 149))
    tier.write()
    export(spark, tier, goal)
    assert rows_of(spark, "parquet", goal).count() == 150

    shutil.rmtree(tier.directory)
    tier.bucket.objects.clear()
    tier.bucket.put(3, (0, 199), partition=AGAIN)
    tier.write()
    with pytest.raises(ExportError, match="another table"):
        export(spark, tier, goal)
    assert rows_of(spark, "parquet", goal).count() == 150
