"""Keeps each topic of a set in a table of its own, in rounds.

A round is an export of each topic (`jobs/export.py`), one after the other, up to where the tier
ends at that moment. A topic that fails is tried again by the next round; the others go on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ....clients.kafka_uuid import Uuid, uuid_to_string
from ....clients.text_table import counted
from ....clients.topic_partition import TopicPartition
from ....tiering.store.remote_url import RemoteUrl
from ....tiering.tools.terminal import Output, human_bytes
from ...reading.scan_options import TopicIds
from ...reading.topic_ids import recreated_topic
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

HEAD = ("topic", "table", "offsets", "lag", "bytes", "rounds", "last round")

_PARTITIONS_AT_MOST = 8
"""The most partitions of a topic in its row."""


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
    is_missed: bool = False
    """Whether the last round was stopped before it came to the topic."""
    uncompacted: int = 0
    """The rounds that have added to the table since its small files were rewritten."""

    def row(self) -> list[str]:
        """The columns of `HEAD`."""
        shown = sorted(self.offsets.items())[:_PARTITIONS_AT_MOST]
        offsets = ", ".join(f"{each.partition}: {offset}" for each, offset in shown)
        if len(shown) < len(self.offsets):
            offsets += f", and {len(self.offsets) - len(shown):,} more"
        lag = "–" if self.lag is None else f"{self.lag:,}"
        size = human_bytes(self.nbytes)
        return [
            *(self.topic, self.table, offsets or "–", lag, size, str(self.rounds)),
            self._last_round(),
        ]

    def _last_round(self) -> str:
        if self.is_missed:
            return "not reached before the job was stopped"
        return self.error or "done"


class Target(NamedTuple):
    """Where the tables are, and how they are written."""

    location: RemoteUrl
    table_format: str
    isolation: str
    settings: ExportSettings
    mapping_of: Callable[[str], RowMapping] | None = None
    """Asked in each round for what maps the rows of a topic before they are written."""
    new_tables: bool = False
    """Whether a topic that was created again gets another table; otherwise it fails."""
    compact_every: int | None = None
    """After so many rounds that have added to it, a table's small files are rewritten."""


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
        self._tables: dict[tuple[str, Uuid | None], ExportTable] = {}
        """By topic and id."""
        self.missed = 0
        """How many topics the last round had not come to when the job was to stop."""
        self.progress: dict[str, TopicProgress] = {}
        """By topic."""

    @property
    def tier(self) -> str:
        """Where the tier is."""
        return str(self._target.location)

    def round(self, topics: Sequence[str]) -> int:
        """Bring the tables of these topics up to date; the number of topics that failed."""
        failed = self.missed = 0
        for topic in topics:
            progress = self.progress.setdefault(topic, TopicProgress(topic))
            progress.is_missed = self._stop.is_made
            if progress.is_missed:
                self.missed += 1
                continue
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
        goal = self._table_of(topic, source.topic_ids)
        progress.table = goal.name
        settings = target.settings
        export = Export(
            self._spark,
            source,
            goal,
            self._output if settings.dry_run else QuietOutput(as_json=False),
            mapping=None if target.mapping_of is None else target.mapping_of(topic),
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
                progress.uncompacted += 1
        every = target.compact_every
        if every is not None and progress.uncompacted >= every and not self._stop.is_made:
            done = export.compact()
            progress.uncompacted = 0
            self._output.line(f"{topic}: {done}")

    def _table_of(self, topic: str, topic_ids: TopicIds) -> ExportTable:
        """Raises ExportError, and KafkaError if the format cannot have such a table."""
        key = topic, topic_ids.get(topic)
        if key not in self._tables:
            table = self._named_table(topic)
            state = table.state() if self._target.new_tables else None
            other = None if state is None else recreated_topic(state.topic_ids, topic_ids)
            if other is not None:
                table = self._named_table(topic, f"_{uuid_to_string(other.current_id)}")
                self._output.line(f"{other}; from now on its table is {table.name}")
            self._tables[key] = table
        return self._tables[key]

    def _named_table(self, topic: str, suffix: str = "") -> ExportTable:
        name = self._names.of(topic, suffix)
        if name.note is not None and not suffix:
            self._output.line(name.note)
        return export_table(self._spark, self._target.table_format, name.name)


def lag(ranges: "Ranges", offsets: Mapping[TopicPartition, int]) -> int:
    """How many offsets of these ranges are not below those of the table."""
    return sum(
        max(0, held.end - max(held.first, offsets.get(partition, 0)))
        for partition, held in ranges.items()
    )


def round_line(number: int, topics: int, failed: int, behind: int) -> str:
    """What a round has done, in one line."""
    trouble = f", {failed} failed" if failed else ""
    return f"round {number}: {counted(topics, 'topic')}{trouble}, {behind:,} behind the tier"
