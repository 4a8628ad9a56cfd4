"""What an export remembers, and what a table must be able to do for it.

The offsets that a table holds are written in the very commit that adds the rows, so there is no
moment at which one is true without the other: that alone is why a job that is killed anywhere and
started again exports each record exactly once.

Two jobs at once, or one that was thought dead, are kept apart by numbering: commit n+1 says what it
starts from by its number, and a table takes each number of a series once. Whoever comes second is
refused and changes nothing.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from ...errors import ErrorCode, KafkaError
from ...topic_partition import TopicPartition
from ..scan_options import offsets_from_json, offsets_to_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIRST_SERIES = "tierlog-export"
SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, date DATE"
)
"""A row of an exported table: that of Spark's Kafka source, and the day of its timestamp in UTC."""

PARTITIONED_BY = ("topic", "date")


class ExportError(Exception):
    """An export cannot go on. The message is one plain sentence."""


class Exported(NamedTuple):
    """What a table holds: for each partition, every record below an offset."""

    series: str
    sequence: int
    """The number of the commit; 0 before the first."""
    offsets: Mapping[TopicPartition, int]

    def to_json(self, run: str = "") -> str:
        """As it is written down; which run did it tells two apart that wrote the same."""
        content = {
            "series": self.series,
            "sequence": self.sequence,
            "offsets": offsets_to_json(self.offsets),
            **({"run": run} if run else {}),
        }
        return json.dumps(content, separators=(",", ":"))

    def after(self, offsets: Mapping[TopicPartition, int]) -> "Exported":
        """What it will be once a commit has brought these partitions this far."""
        return Exported(self.series, self.sequence + 1, {**self.offsets, **offsets})


NOTHING = Exported(FIRST_SERIES, 0, {})


def exported_from_json(text: str, table: str) -> Exported:
    """Read what `to_json` wrote. Raises ExportError, which names the table."""
    try:
        content = cast("dict[str, object]", json.loads(text))
        series, sequence = content["series"], content["sequence"]
        if not isinstance(series, str) or not isinstance(sequence, int):
            raise TypeError(series)
        return Exported(series, sequence, offsets_from_json(content["offsets"]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ExportError(f"What {table} remembers of its exports cannot be read.") from error


def exported_from_rows(offsets: Mapping[TopicPartition, int]) -> Exported:
    """What a table holds that has rows and has forgotten who wrote them.

    Tables forget their old commits. Each commit brought all records up to some offset, so the
    highest offsets say where to go on; the series is a new one, and the same for all who look.
    """
    text = json.dumps(offsets_to_json(offsets), sort_keys=True)
    return Exported(f"{FIRST_SERIES}-{hashlib.sha256(text.encode()).hexdigest()[:16]}", 0, offsets)


def highest_offsets(rows: "DataFrame") -> dict[TopicPartition, int]:
    """The offset after the last one of each partition that has rows."""
    highest_offsets = rows.groupBy("topic", "partition").agg({"offset": "max"})
    return {
        TopicPartition(str(row[0]), int(row[1])): int(row[2]) + 1
        for row in highest_offsets.toDF("topic", "partition", "offset").collect()
    }


def what_it_holds(remembered: str | None, rows: "DataFrame", table: str) -> Exported:
    """What a table holds by the youngest commit of an export, or by its rows if it has none."""
    if remembered is not None:
        return exported_from_json(remembered, table)
    offsets = highest_offsets(rows)
    return exported_from_rows(offsets) if offsets else NOTHING


class Compaction(NamedTuple):
    """Small files that became, or would become, larger ones."""

    files_before: int
    files_after: int
    """0 in a dry run: it is not known before the run."""


class ExportTable(Protocol):
    """A table that commits rows and offsets at once."""

    name: str

    def state(self) -> Exported | None:
        """What the table holds; None if there is none. Ends what a killed job had committed."""
        ...

    def create(self) -> None:
        """Make it, empty, where it is not there."""
        ...

    def append(self, rows: "DataFrame", after: Exported) -> None:
        """Commit rows and offsets at once; ExportError if that number is taken."""
        ...

    def compact(self, small_bytes: int, *, dry_run: bool) -> Compaction:
        """Rewrite files of fewer bytes into larger ones; the records stay the same."""
        ...


def commit_conflict(name: str, sequence: int) -> ExportError:
    """Somebody else's commit came first."""
    return ExportError(
        f"Another export has committed to {name} meanwhile (number {sequence}); "
        "nothing was written, run this one again."
    )


def refusal(sentence: str) -> KafkaError:
    """The arguments cannot be meant."""
    return KafkaError(ErrorCode.INVALID_CONFIG, sentence)
