"""The statement that brings records into a table which holds the newest record of each key.

The newest is the one of the highest (partition, offset). A key is in one partition as a rule; of a
key in several, as after partitions were added, no order is known, in Kafka neither. A tombstone, a
record without a value, deletes the row of its key. All of this may be repeated: a record that is in
the table already, or an older one, changes nothing.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ....clients.kafka_uuid import uuid_to_string
from ....clients.runtime.environment import SystemEnvironment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NO_KEY = (
    "concat('Offset ', offset, ' of ', topic, '-', partition, ' has no key, so it cannot be "
    "upserted: materialize the topic without --upsert.')"
)


@contextmanager
def upsert_statement(table: str, rows: "DataFrame") -> Generator[str]:
    """The MERGE of these rows, to be run in this context; `table` is a name in SQL.

    It fails when it meets a record without a key. The rows are a temporary view meanwhile: a job
    that repeats would fill its session with those that stay.
    """
    from pyspark.sql.functions import expr

    view = f"tierlog_{uuid_to_string(SystemEnvironment().random_uuid()).replace('-', '_')}"
    key = expr(f"coalesce(key, CAST(raise_error({_NO_KEY}) AS BINARY))")
    rows.withColumn("key", key).createOrReplaceTempView(view)
    is_newer = "(s.partition > t.partition OR (s.partition = t.partition AND s.offset > t.offset))"
    try:
        yield (
            f"MERGE INTO {table} t USING (SELECT newest.* FROM (SELECT "
            f"max_by(struct(*), struct(partition, offset)) AS newest FROM {view} GROUP BY key)) s "
            f"ON t.key = s.key "
            f"WHEN MATCHED AND {is_newer} AND s.value IS NULL THEN DELETE "
            f"WHEN MATCHED AND {is_newer} THEN UPDATE SET * "
            "WHEN NOT MATCHED AND s.value IS NOT NULL THEN INSERT *"
        )
    finally:
        rows.sparkSession.catalog.dropTempView(view)
