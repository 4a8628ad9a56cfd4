"""Whether rows are the consumer's, field by field and each record once; DuckDB compares them."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tierlog.tests.pipeline.spark.clusters.mixed_topic import FIELDS, MixedTopic

_COLUMNS = 'key, value, topic, partition, "offset", timestamp_ms, headers'
_SPARK_COLUMNS = _COLUMNS.replace("timestamp_ms", "epoch_ms(timestamp) AS timestamp_ms").replace(
    # A record without headers has an empty list or null in tables, by their format.
    "headers",
    "CASE WHEN len(headers) > 0 THEN headers END AS headers",
)


class JudgedTopic(NamedTuple):
    """A topic, and a file of Parquet with what the consumer gets of it."""

    topic: MixedTopic
    consumed: Path


def consumed_file(topic: MixedTopic, file: Path) -> Path:
    """What the consumer gets, as a file of Parquet."""
    with pq.ParquetWriter(str(file), FIELDS) as writer:
        for table in topic.consumed():
            writer.write_table(table)
    return file


def assert_rows_are(expected: Path, rows: Iterable[Path] | pa.Table) -> int:
    """The rows, files of Parquet or a table of Arrow's, are those of the file; how many."""
    with duckdb.connect() as database:
        if isinstance(rows, pa.Table):
            database.register("found", rows)
            found = "found"
        else:
            files = ", ".join(f"'{each}'" for each in rows)
            found = f"read_parquet([{files}], hive_partitioning = true)"
        database.execute(f"CREATE VIEW wanted AS SELECT {_COLUMNS} FROM '{expected}'")
        database.execute(f"CREATE TABLE got AS SELECT {_SPARK_COLUMNS} FROM {found}")
        twice = database.execute(
            'SELECT partition, "offset", count(*) FROM got GROUP BY ALL HAVING count(*) > 1 LIMIT 5'
        ).fetchall()
        assert twice == [], "rows that are there more than once"
        place = 'SELECT partition, "offset" FROM'
        missing = database.execute(
            f"{place} (SELECT * FROM wanted EXCEPT ALL SELECT * FROM got) ORDER BY ALL LIMIT 5"
        ).fetchall()
        wrong = database.execute(
            f"{place} (SELECT * FROM got EXCEPT ALL SELECT * FROM wanted) ORDER BY ALL LIMIT 5"
        ).fetchall()
        assert (missing, wrong) == ([], []), "missing rows, and rows that are none"
        ((rows_there,),) = database.execute("SELECT count(*) FROM got").fetchall()
        return int(rows_there)
