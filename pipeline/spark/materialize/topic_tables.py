"""Keeps each topic of a set in a table of its own, in rounds.

A round is an export of each topic (`jobs/export.py`), one after the other, up to where the tier
ends at that moment. A topic that fails is tried again by the next round; the others go on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ....clients.text_table import counted
from ....clients.topic_partition import TopicPartition
from ....tiering.store.remote_url import RemoteUrl
from ....tiering.tools.terminal import Output, human_bytes
from ..failures import FAILURES, failure_sentence, has_spark_ended
from ..jobs.export import Export, ExportSettings, RowMapping, export_table
from ..streaming.offset_steps import records_in
from ..tables.export_state import ExportTable
from ..tier_source import TierSource
from .stop_request import StopRequest
from .table_names import TableNames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..streaming.offset_steps import Ranges

HEAD = ("topic", "table", "offsets", "lag", "bytes", "rounds", "last error")


@dataclass(slots=True)
class TopicProgress:
    """How far the table of a topic is."""

    topic: str
    table: str = ""
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    """The table holds what is below, of each partition."""
    lag: int | None = None
    """The offsets in the tier that the table lacks, by the last look; None before the first."""
    nbytes: int = 0
    """About how many bytes of segments this job has copied."""
    rounds: int = 0
    """Those that did not fail."""
    error: str | None = None
    """Why the last round failed; None if it did not."""

    def row(self) -> list[str]:
        """The columns of `HEAD`."""
        offsets = ", ".join(
            f"{each.partition}: {offset}" for each, offset in sorted(self.offsets.items())
        )
        lag = "–" if self.lag is None else f"{self.lag:,}"
        size = human_bytes(self.nbytes)
        return [
            *(self.topic, self.table, offsets or "–", lag, size, str(self.rounds)),
            self.error or "–",
        ]


class Target(NamedTuple):
    """Where the tables are, and how they are written."""

    location: RemoteUrl
    table_format: str
    isolation: str
    settings: ExportSettings
    mapping: RowMapping | None = None
    """Maps the rows of each topic before they are written."""


class QuietOutput(Output):
    """The output of an export inside a round: its progress, without its lines."""

    def line(self, text: str) -> None:
        """Print nothing: the round has a line for the topic."""


class TopicTables:
    """The tables of the topics that were there in some round."""

    def __init__(
        self,
        spark: "SparkSession",
        target: Target,
        names: TableNames,
        stop: StopRequest,
        output: Output,
    ) -> None:
        self._spark = spark
        self._target = target
        self._names = names
        self._stop = stop
        self._output = output
        self._tables: dict[str, ExportTable] = {}
        self.progress: dict[str, TopicProgress] = {}
        """By topic."""

    def round(self, topics: Sequence[str]) -> int:
        """Bring the tables of these topics up to date; the number of topics that failed."""
        failed = 0
        for topic in topics:
            if self._stop.is_made:
                break
            progress = self.progress.setdefault(topic, TopicProgress(topic))
            try:
                self._bring(progress)
            except FAILURES as error:
                if has_spark_ended(error):
                    raise
                progress.error = failure_sentence(error)
                self._output.line(f"{topic}: {progress.error}")
                failed += 1
            else:
                progress.error = None
                progress.rounds += 1
        return failed

    def _bring(self, progress: TopicProgress) -> None:
        topic, target = progress.topic, self._target
        source = TierSource(target.location, [topic], target.isolation)
        ranges = source.ranges()
        goal = self._table_of(topic)
        progress.table = goal.name
        settings = target.settings
        export = Export(
            self._spark,
            source,
            goal,
            self._output if settings.dry_run else QuietOutput(as_json=False),
            mapping=target.mapping,
            must_stop=lambda: self._stop.is_made,
        )
        try:
            export.run(ranges, settings)
        finally:
            progress.offsets = export.state.offsets
            progress.lag = lag(ranges, export.state.offsets)
            nbytes = source.nbytes_in(export.brought)
            progress.nbytes += nbytes
            if export.brought:
                self._output.line(
                    f"{topic}: {counted(records_in(export.brought), 'offset')} of about "
                    f"{human_bytes(nbytes)} to {goal.name}, {progress.lag:,} behind the tier"
                )

    def _table_of(self, topic: str) -> ExportTable:
        """Raises ExportError, and KafkaError if the format cannot have such a table."""
        if topic in self._tables:
            return self._tables[topic]
        name = self._names.of(topic)
        if name.note is not None:
            self._output.line(name.note)
        table = export_table(self._spark, self._target.table_format, name.name)
        self._tables[topic] = table
        return table


def lag(ranges: "Ranges", offsets: Mapping[TopicPartition, int]) -> int:
    """How many offsets of these ranges are not below those of the table."""
    return sum(
        max(0, held.end - max(held.first, offsets.get(partition, 0)))
        for partition, held in ranges.items()
    )


def round_line(number: int, topics: Sequence[str], failed: int, all_of: "Iterable[int]") -> str:
    """What a round has done, in one line."""
    behind = sum(all_of)
    trouble = f", {failed} failed" if failed else ""
    return f"round {number}: {counted(len(topics), 'topic')}{trouble}, {behind:,} behind the tier"
