"""A topic of 9,990 tiny segments, of which an unclean election has cut some off, on a cluster."""

import sys
from pathlib import Path

import pytest

from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.tests.pipeline.spark.clusters.driver import SETTINGS, Driver
from tierlog.tests.pipeline.spark.folder_tier import TOPIC
from tierlog.tests.pipeline.spark.spark_cluster import SparkCluster
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tests.tiering.tools.bucket import Bucket

pytestmark = [
    pytest.mark.long,
    pytest.mark.requires("java"),
    pytest.mark.timeout(900),
]

PARTITIONS, SEGMENTS, OFFSETS = 10, 999, 5
CUT = (SEGMENTS - 50) * OFFSETS
"""Where the new leader of partition 3 begins: the 50 segments beyond it are of a dead branch."""
DEAD, OF_THE_NEW = 50, 20
JOB = """
from pyspark.sql.functions import count, count_if, countDistinct, expr, max
from tierlog.pipeline.spark.session import spark_session
from tierlog.pipeline.spark.source import TierlogDataSource

spark = spark_session("many", master={master!r}, jars=(), settings={settings!r})
spark.dataSource.register(TierlogDataSource)
rows = spark.read.format("tierlog").options(path={path!r}, topic={topic!r}).load()
rows = rows.selectExpr("partition", "offset", "CAST(value AS STRING) AS value")
epoch = "CASE WHEN partition = 3 AND offset >= {cut} THEN 4 ELSE 0 END"
right = "value = concat(offset, '/', " + epoch + ", ' value')"
found = rows.groupBy("partition").agg(
    count("*"), countDistinct("offset"), max("offset"), count_if(expr("NOT " + right))
)
for row in sorted(found.collect()):
    print("rows", *row)
spark.stop()
"""


def many_segments(directory: Path) -> None:
    """Write the tier: partition 3 has a second leader from CUT on, of epoch 4."""
    for number in range(PARTITIONS):
        # One partition at a time, or all objects of all would be in memory.
        bucket = Bucket()
        partition = TopicIdPartition(PARTITION.topic_id, TOPIC, number)
        for each in range(SEGMENTS):
            first = each * OFFSETS
            bucket.put(each + 1, (first, first + OFFSETS - 1), partition=partition)
        if number == 3:
            for each in range(OF_THE_NEW):
                first = CUT + each * OFFSETS
                history = ((0, 0), (4, CUT))
                last = first + OFFSETS - 1
                bucket.put(SEGMENTS + each + 1, (first, last), history, partition=partition)
        bucket.write_to(directory)


def test_the_rows_of_9990_segments_are_those_of_the_newest_leaders(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    many_segments(tier)
    with SparkCluster(tmp_path, workers=2, cores=1) as cluster:
        program = tmp_path / "job.py"
        program.write_text(
            JOB.format(
                master=cluster.master, settings=SETTINGS, path=str(tier), topic=TOPIC, cut=CUT
            )
        )
        with Driver(tmp_path, [sys.executable, str(program)]) as job:
            job.finish()
        said = job.output.splitlines()
    whole = SEGMENTS * OFFSETS
    counts = dict.fromkeys(range(PARTITIONS), whole) | {3: CUT + OF_THE_NEW * OFFSETS}
    rows = [line for line in said if line.startswith("rows")]
    # Rows, distinct offsets, the last offset, and rows of a wrong leader.
    assert rows == [
        f"rows {partition} {count} {count} {count - 1} 0" for partition, count in counts.items()
    ]
