"""The state of an export, and the interface of its target table.

The offsets that a table holds are written in the same commit as the rows, so both change
atomically. This is why a job that is killed at any point and restarted exports each record exactly
once. The ids of the topics are written with the offsets: those of a topic that was deleted and
created again are of other records, which do not belong behind the old ones. So are the leader
epochs (`exported_epochs.py`).

Commit numbers protect against concurrent jobs, such as one that was believed dead: commit n+1
builds on commit n, and a table accepts each number only once. The job that commits second is
rejected and changes nothing. If a table no longer has any commit of an export, its numbers begin
again at 1 in a new series (`exported_from_rows`).
"""

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from ....clients.errors import ErrorCode, KafkaError
from ....clients.topic_partition import TopicPartition
from ...reading.scan_options import (
    TopicIds,
    offsets_from_json,
    offsets_to_json,
    topic_ids_from_json,
    topic_ids_to_json,
)
from .exported_epochs import Epochs, epochs_from_json, epochs_to_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ...reading.scan_bounds import OffsetRange

FIRST_SERIES = "tierlog-export"
SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, date DATE"
)
"""The columns of an exported table: those of Spark's Kafka source, and the UTC date."""

PARTITIONED_BY = ("topic", "date")


class ExportError(Exception):
    """An export cannot continue. The message is one sentence for the user."""


class Exported(NamedTuple):
    """The state of a table: of each partition it holds every record below the offset here."""

    series: str
    sequence: int
    """The number of the commit; 0 before the first."""
    offsets: Mapping[TopicPartition, int]
    topic_ids: TopicIds
    """A topic's id is unknown if an earlier version exported it, or its commits have expired."""
    epochs: Epochs = MappingProxyType({})
    starts: Mapping[TopicPartition, int] = MappingProxyType({})
    """Rows below these offsets were deleted, or never there."""
    is_upsert: bool = False
    """Whether the table holds the newest record of each key, and not all records."""

    def to_json(self, run: str = "") -> str:
        """The state as JSON; `run` distinguishes two runs that wrote the same state."""
        content = {
            "series": self.series,
            "sequence": self.sequence,
            "offsets": offsets_to_json(self.offsets),
            "topicIds": topic_ids_to_json(self.topic_ids),
            "epochs": epochs_to_json(self.epochs),
            "starts": offsets_to_json(self.starts),
            **({"upsert": True} if self.is_upsert else {}),
            **({"run": run} if run else {}),
        }
        return json.dumps(content, separators=(",", ":"))

    def after(
        self, offsets: Mapping[TopicPartition, int], topic_ids: TopicIds, epochs: Epochs
    ) -> "Exported":
        """The state after the commit that reaches these offsets of these topics.

        `epochs` are the histories of all rows of those partitions.
        """
        return self._replace(
            sequence=self.sequence + 1,
            offsets={**self.offsets, **offsets},
            topic_ids={**self.topic_ids, **topic_ids},
            epochs={**self.epochs, **epochs},
        )


NOTHING = Exported(FIRST_SERIES, 0, {}, {})


def exported_from_json(text: str, table: str) -> Exported:
    """Read what `to_json` wrote. Raises ExportError, which names the table."""
    try:
        content = cast("dict[str, object]", json.loads(text))
        series, sequence = content["series"], content["sequence"]
        if not isinstance(series, str) or not isinstance(sequence, int):
            raise TypeError(series)
        return Exported(
            series,
            sequence,
            offsets_from_json(content["offsets"]),
            topic_ids_from_json(content.get("topicIds", {})),
            epochs_from_json(content.get("epochs", {})),
            offsets_from_json(content.get("starts", {})),
            content.get("upsert") is True,
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ExportError(f"The saved progress of exports to {table} cannot be read.") from error


def exported_from_rows(offsets: Mapping[TopicPartition, int]) -> Exported:
    """The state of a table that has rows, but no longer any commit of an export.

    Tables expire old commits. Each commit added all records up to some offset, so the highest
    offsets show where to continue. The new series is derived from these offsets, so that
    concurrent jobs get the same one.
    """
    text = json.dumps(offsets_to_json(offsets), sort_keys=True)
    series = f"{FIRST_SERIES}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return Exported(series, 0, offsets, {})


def highest_offsets(rows: "DataFrame") -> dict[TopicPartition, int]:
    """The offset after the highest one in the rows, for each partition that has rows."""
    highest_offsets = rows.groupBy("topic", "partition").agg({"offset": "max"})
    return {
        TopicPartition(str(row[0]), int(row[1])): int(row[2]) + 1
        for row in highest_offsets.toDF("topic", "partition", "offset").collect()
    }


def what_it_holds(remembered: str | None, rows: "DataFrame", table: str) -> Exported:
    """The state that the latest commit of an export has, or else the one that the rows show."""
    if remembered is not None:
        return exported_from_json(remembered, table)
    offsets = highest_offsets(rows)
    return exported_from_rows(offsets) if offsets else NOTHING


class Compaction(NamedTuple):
    """The result of rewriting small files into larger ones."""

    files_before: int
    files_after: int
    """0 in a dry run, where it is unknown."""


class ExportTable(Protocol):
    """A table that commits rows and offsets atomically."""

    name: str

    def state(self) -> Exported | None:
        """The table's state; None if there is no table. First completes a killed job's commit."""
        ...

    def create(self, *, is_upsert: bool = False) -> None:
        """Create an empty table if it does not exist; one for `upsert` has no partitions."""
        ...

    def add_columns(self, rows: "DataFrame") -> "DataFrame":
        """Give the table the columns of these rows that it lacks; rows before have null there.

        Returns the rows with the columns that only the table has. Raises ExportError if a column
        has another type in the table.
        """
        ...

    def append(self, rows: "DataFrame", after: Exported) -> None:
        """Commit rows and offsets atomically. Raises ExportError if the number is taken."""
        ...

    def upsert(self, rows: "DataFrame", after: Exported) -> None:
        """Bring the newest record of each key (`upsert.py`), and the offsets, atomically.

        Raises ExportError if the number is taken, KafkaError if the format cannot.
        """
        ...

    def delete(self, ranges: "Mapping[TopicPartition, OffsetRange]", after: Exported) -> None:
        """Delete the rows of these offsets, and commit the offsets, atomically.

        Raises ExportError if the number is taken, KafkaError if the format cannot delete rows.
        """
        ...

    def compact(self, small_bytes: int, *, dry_run: bool) -> Compaction:
        """Rewrite files below `small_bytes` into larger ones; the records do not change."""
        ...


def rows_condition(ranges: "Mapping[TopicPartition, OffsetRange]") -> str:
    """A condition of SQL that the rows of these offsets meet, and no others."""
    return " OR ".join(
        f"(topic = '{partition.topic}' AND partition = {partition.partition} "
        f"AND offset >= {offsets.first} AND offset < {offsets.end})"
        for partition, offsets in sorted(ranges.items())
    )


def commit_conflict(name: str, sequence: int) -> ExportError:
    """The error for another job's commit with the same number."""
    return ExportError(
        f"Another export has committed to {name} meanwhile (number {sequence}); "
        "nothing was written, run this one again."
    )


def refusal(message: str) -> KafkaError:
    """The error for invalid arguments."""
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
