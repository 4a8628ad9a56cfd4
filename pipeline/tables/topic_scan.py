"""`scan`: a topic in a tier as a value that Arrow's consumers read.

The records come straight from the objects of the tier, through `pipeline/reading/scan.py`, which
needs neither Spark nor a broker: complete segments of the newest leader's history, with their
checksums checked. What a broker has not copied to the tier yet is not there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import pyarrow as pa

from ...clients.topic_partition import TopicPartition
from ..reading.arrow_columns import schema_of
from ..reading.scan_options import (
    EARLIEST,
    LATEST,
    STORAGE_PREFIX,
    Bound,
    ScanError,
    ScanOptions,
    scan_options,
)
from .record_stream import record_stream

if TYPE_CHECKING:
    import polars as pl

Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]

Position: TypeAlias = int | datetime | Mapping[int, int] | None
"""An offset for every partition, a time with a time zone, offsets by partition, or no bound."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def scan(
    url: str,
    topic: str,
    *,
    columns: Iterable[str] | None = None,
    start: Position = None,
    end: Position = None,
    isolation: Isolation = "read_uncommitted",
    storage_options: Mapping[str, str] | None = None,
) -> "TopicScan":
    """A topic of the tier at `url`, to be read as Arrow. Nothing is read before it is used.

    Args:
        url: the broker's `rsm.config.url`, or a path on this machine.
        topic: its name.
        columns: which of `key value topic partition offset timestamp timestampType headers`, in
            this order; all by default.
        start: the first offset of each partition, or a time: the first record that is as young.
            A partition that has none so young contributes nothing.
        end: the same, exclusive.
        isolation: with `read_committed`, records of aborted transactions are left out.
        storage_options: options of the file system, as the broker's `rsm.config.option.<name>`.

    Raises:
        ScanError: if an argument names nothing that can be read. A scan's reading raises it too:
            the tier is unreachable, it has no such topic, or offsets are missing or damaged.
    """
    if not url:
        raise ScanError("The url is empty: it is the broker's rsm.config.url")
    if not topic:
        raise ScanError("The name of the topic is empty")
    if isinstance(columns, str):
        raise ScanError(f"columns={columns!r} is one text: write columns=[{columns!r}]")
    stated = {"path": url, "topic": topic, "isolation": isolation}
    if columns is not None:
        stated["columns"] = ",".join(columns)
    for name, text in (storage_options or {}).items():
        stated[STORAGE_PREFIX + name] = text
    options = scan_options(stated)
    if len(options.topics) > 1:
        raise ScanError(f"A scan reads one topic, and {topic!r} are several")
    return TopicScan(
        replace(
            options,
            starting=_bound("start", topic, start, EARLIEST),
            ending=_bound("end", topic, end, LATEST),
            later_start_is_latest=True,
        )
    )


def _bound(name: str, topic: str, position: Position, unbounded: int) -> Bound:
    match position:
        case None:
            return Bound(unbounded)
        case bool():
            raise ScanError(f"{name}={position!r} is not an offset")
        case int() if position >= 0:
            return Bound(position)
        case datetime() if position.tzinfo is None:
            raise ScanError(f"{name}={position} has no time zone: add tzinfo=datetime.UTC or yours")
        case datetime():
            # Rounded up: timestamps of records are whole milliseconds.
            return Bound(-((_EPOCH - position) // timedelta(milliseconds=1)), by_time=True)
        case int():
            raise ScanError(f"{name}={position} is not an offset: the first record has offset 0")
        case _:
            if any(offset < 0 for offset in position.values()):
                raise ScanError(f"{name}={position}: the first record has offset 0")
            return Bound(None, {TopicPartition(topic, each): at for each, at in position.items()})


@dataclass(frozen=True, slots=True)
class TopicScan:
    """A topic of a tier. Each use reads the tier as it is then."""

    _options: ScanOptions = field(repr=False)

    def __repr__(self) -> str:
        (topic,) = self._options.topics
        return f"<scan of {topic!r} in {self._options.location}: {', '.join(self.schema.names)}>"

    def lenient(self) -> "TopicScan":
        """The same scan, which reads what is there where offsets are missing.

        They are missing if they are expired, lost, or compacted once, or if a bound lies beyond
        the tier. Without this, they end the reading with an error.
        """
        return TopicScan(replace(self._options, fail_on_data_loss=False))

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        return schema_of(self._options.columns)

    def reader(self) -> pa.RecordBatchReader:
        """The records as a stream of batches of a few MB, by partition and offset.

        Raises ScanError, also while it is read.
        """
        made = cast("Any", pa.RecordBatchReader).from_batches(
            self.schema, record_stream(self._options)
        )
        return cast("pa.RecordBatchReader", made)

    def to_table(self) -> pa.Table:
        """All records in memory. Raises ScanError."""
        return cast("pa.Table", cast("Any", self.reader()).read_all())

    def polars(self) -> "pl.LazyFrame":
        """A LazyFrame, which reads only what a query needs.

        Columns that it does not use are not decoded; conditions on `partition`, `offset` and a
        least `timestamp` leave out segments and batches.
        Raises ImportError without Polars; a query raises ScanError.
        """
        from .polars_source import lazy_frame

        return lazy_frame(self._options, self.schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The stream by Arrow's PyCapsule interface: DuckDB, pandas, DataFusion and others."""
        return cast("Any", self.reader()).__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The schema by Arrow's PyCapsule interface."""
        return cast("Any", self.schema).__arrow_c_schema__()
