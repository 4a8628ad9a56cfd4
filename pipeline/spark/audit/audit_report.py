"""The report of an audit of a whole tier, by topic.

The output for people is tables and sentences. For machines it is one JSON object per line, whose
`type` is one of

    segment    a line for each segment that was read
    topic      sums over the topic's segments
    finding    a problem: object, offsets, what to do
    summary    the last line
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ....clients.kafka_uuid import uuid_to_string
from ....clients.text_table import counted, table
from ....clients.topic_partition import TopicIdPartition
from ....tiering.store.object_keys import partition_prefix
from ....tiering.tools.terminal import finding_fields, human_bytes
from ....tiering.tools.tier_survey import Finding
from ..page.report_page import time_text
from .segment_verdict import SegmentVerdict, Totals


@dataclass(frozen=True, slots=True)
class TopicAudit:
    """The sums of one topic id over all its segments in the tier."""

    topic: str
    topic_id: str
    partitions: int
    segments: int
    nbytes: int
    totals: Totals
    troubles: int
    notes: int

    def fields(self) -> dict[str, object]:
        """The topic as JSON fields."""
        return {
            "type": "topic",
            "topic": self.topic,
            "topic_id": self.topic_id,
            "partitions": self.partitions,
            "segments": self.segments,
            "bytes": self.nbytes,
            **_total_fields(self.totals),
            "findings": self.troubles,
            "notes": self.notes,
        }


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The whole result of an audit."""

    tier: str
    verdicts: Sequence[SegmentVerdict]
    """The verdicts on the readable segments, by partition and offset."""
    findings: Sequence[Finding]
    """All findings: about single segments, several segments together, and metadata."""
    partitions: Sequence[TopicIdPartition]
    """All partitions in the listing, even those without a complete segment."""
    metadata_was_read: bool
    """Whether the metadata topic was compared with the objects."""

    @property
    def troubles(self) -> int:
        return sum(finding.is_trouble for finding in self.findings)

    @property
    def notes(self) -> int:
        return len(self.findings) - self.troubles

    @property
    def nbytes(self) -> int:
        return sum(verdict.nbytes for verdict in self.verdicts)

    @property
    def totals(self) -> Totals:
        return _sum(self.verdicts)

    @property
    def conclusion(self) -> str:
        """The result in one sentence."""
        verdict = "sound"
        if self.troubles:
            verdict = counted(self.troubles, "finding")
            verdict += " needs attention" if self.troubles == 1 else " need attention"
        notes = f", {counted(self.notes, 'note')}" if self.notes else ""
        segments = counted(len(self.verdicts), "segment")
        partitions = counted(len(self.partitions), "partition")
        records = counted(self.totals.records, "record")
        size = human_bytes(self.nbytes)
        return f"{segments} of {partitions}, {size}, {records}: {verdict}{notes}"

    def topics(self) -> list[TopicAudit]:
        """The topics, by name."""
        by_topic: dict[tuple[str, str], list[TopicIdPartition]] = {}
        for partition in self.partitions:
            name = (partition.topic, uuid_to_string(partition.topic_id))
            by_topic.setdefault(name, []).append(partition)
        return [
            self._topic(topic, topic_id, partitions)
            for (topic, topic_id), partitions in sorted(by_topic.items())
        ]

    def _topic(
        self, topic: str, topic_id: str, partitions: Sequence[TopicIdPartition]
    ) -> TopicAudit:
        own = set(partitions)
        verdicts = [verdict for verdict in self.verdicts if verdict.partition in own]
        folders = {partition_prefix(partition) for partition in own}
        findings = [finding for finding in self.findings if folder_of(finding) in folders]
        troubles = sum(finding.is_trouble for finding in findings)
        return TopicAudit(
            topic,
            topic_id,
            len(own),
            len(verdicts),
            sum(verdict.nbytes for verdict in verdicts),
            _sum(verdicts),
            troubles,
            len(findings) - troubles,
        )


def folder_of(finding: Finding) -> str:
    """The folder of the partition that a finding is about; the key may itself be the folder."""
    folder, slash, _ = finding.key.rpartition("/")
    return folder if slash else finding.key


def _sum(verdicts: Sequence[SegmentVerdict]) -> Totals:
    totals = Totals()
    for verdict in verdicts:
        totals = totals.plus(verdict.totals)
    return totals


def _total_fields(totals: Totals) -> dict[str, object]:
    return {
        "batches": totals.batches,
        "records": totals.records,
        "markers": totals.markers,
        "first_timestamp_ms": totals.first_ms,
        "last_timestamp_ms": totals.last_ms,
    }


def json_lines(report: AuditReport) -> Iterator[Mapping[str, object]]:
    """The whole report, one object per line; the summary comes last."""
    for verdict in report.verdicts:
        yield {
            "type": "segment",
            "topic": verdict.partition.topic,
            "partition": verdict.partition.partition,
            "segment_id": uuid_to_string(verdict.segment_id),
            "first_offset": verdict.first_offset,
            "last_offset": verdict.last_offset,
            "bytes": verdict.nbytes,
            **_total_fields(verdict.totals),
            "sound": verdict.is_sound,
        }
    for topic in report.topics():
        yield topic.fields()
    for finding in report.findings:
        yield {"type": "finding", **finding_fields(finding)}
    yield {
        "type": "summary",
        "tier": report.tier,
        "sound": not report.troubles,
        "segments": len(report.verdicts),
        "partitions": len(report.partitions),
        "bytes": report.nbytes,
        **_total_fields(report.totals),
        "findings": report.troubles,
        "notes": report.notes,
        "metadata_was_read": report.metadata_was_read,
    }


HEAD = [
    *("topic", "partitions", "segments", "records", "size"),
    *("oldest record", "youngest record", "findings", "notes"),
]


def topic_rows(report: AuditReport) -> list[list[str]]:
    """A row for each topic, under HEAD. Topics with the same name also show their ids."""
    topics = report.topics()
    names = [topic.topic for topic in topics]
    return [
        [
            topic.topic if names.count(topic.topic) == 1 else f"{topic.topic} ({topic.topic_id})",
            str(topic.partitions),
            f"{topic.segments:,}",
            f"{topic.totals.records:,}",
            human_bytes(topic.nbytes),
            time_text(topic.totals.first_ms),
            time_text(topic.totals.last_ms),
            str(topic.troubles),
            str(topic.notes),
        ]
        for topic in topics
    ]


def table_lines(report: AuditReport) -> list[str]:
    """The topics as a table for a terminal."""
    return table(HEAD, topic_rows(report))
