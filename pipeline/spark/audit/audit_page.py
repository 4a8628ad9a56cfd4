"""The HTML report of an audit: topics, findings, offsets and sizes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ....tiering.store.object_keys import partition_prefix
from ....tiering.tools.terminal import human_bytes
from ...plots.canvas import BLUE, GREY, ORANGE, Axes, Canvas, label_of
from ..page.report_page import Page, Section, findings_section
from .audit_report import HEAD, AuditReport, folder_of, topic_rows

if TYPE_CHECKING:
    from ....clients.topic_partition import TopicIdPartition
    from ....tiering.tools.tier_survey import Finding

_PARTITIONS_AT_MOST = 40
_TOPICS_AT_MOST = 30
_SIZE_STEPS = [1 << each for each in range(10, 33)]


class Strip(NamedTuple):
    """One partition's offsets: its sound and bad stretches as (first, last), inclusive."""

    name: str
    first: int
    last: int
    sound: list[tuple[int, int]]
    bad: list[tuple[int, int]]

    @property
    def has_trouble(self) -> bool:
        return bool(self.bad)


def audit_page(report: AuditReport, made_ms: int) -> str:
    """The HTML of the report."""
    sections = [
        Section(
            "Topics", "Sums over all segments that could be read.", None, HEAD, topic_rows(report)
        ),
        findings_section(report.findings),
    ]
    if report.verdicts or report.findings:
        sections.append(_coverage(report))
    if report.verdicts:
        sections += [_sizes(report), _segment_sizes(report)]
    return Page(
        "Audit of a tier",
        report.tier,
        made_ms,
        report.conclusion[:1].upper() + report.conclusion[1:],
        not report.troubles,
        sections,
    ).html()


def strips(report: AuditReport) -> list[Strip]:
    """The strips of all partitions; those with trouble come first."""
    troubles: dict[str, list[Finding]] = {}
    for finding in report.findings:
        if finding.is_trouble and finding.offsets:
            troubles.setdefault(folder_of(finding), []).append(finding)
    sound: dict[TopicIdPartition, list[tuple[int, int]]] = {}
    for verdict in report.verdicts:
        sound.setdefault(verdict.partition, []).append((verdict.first_offset, verdict.last_offset))
    coverage: list[Strip] = []
    for partition in report.partitions:
        bad = [
            (each.offsets[0], each.offsets[-1])
            for each in troubles.get(partition_prefix(partition), [])
        ]
        everything = [*sound.get(partition, []), *bad]
        if everything:
            first, last = min(each[0] for each in everything), max(each[1] for each in everything)
            name = label_of(partition.topic, f"-{partition.partition}")
            coverage.append(Strip(name, first, last, sound.get(partition, []), sorted(set(bad))))
    return sorted(coverage, key=lambda each: not each.has_trouble)


def _coverage(report: AuditReport) -> Section:
    page_strips = strips(report)
    shown = page_strips[:_PARTITIONS_AT_MOST]
    says = (
        "The offsets of each partition that the tier holds, from its first to its last. Blue is "
        "sound; orange and hatched is damaged or missing; white lines separate segments."
    )
    if len(shown) < len(page_strips):
        says += (
            f" {len(shown)} of {len(page_strips):,} partitions are shown, those with trouble first."
        )
    with Canvas(10, 0.9 + 0.32 * len(shown)) as canvas:
        axes = canvas.axes[0][0]
        for row, strip in enumerate(shown):
            _draw(axes, row, strip)
        axes.set_yticks(list(range(len(shown))), [each.name for each in shown])
        axes.set_xlim(0, 100)
        axes.set_ylim(-0.7, len(shown) - 0.3)
        axes.invert_yaxis()
        axes.set_xlabel("share of the partition's offsets (%)")
        axes.tick_params(axis="y", length=0)
        return Section("Offsets", says, canvas.svg())


def _draw(axes: Axes, row: int, strip: Strip) -> None:
    scale = 100 / (strip.last - strip.first + 1)

    def intervals(stretches: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
        return [
            ((first - strip.first) * scale, (last - first + 1) * scale) for first, last in stretches
        ]

    place = (row - 0.36, 0.72)
    axes.broken_barh(
        intervals(strip.sound), place, facecolor=BLUE, edgecolor="white", linewidth=0.5
    )
    axes.broken_barh(
        intervals(strip.bad),
        place,
        facecolor="#fbe0cf",
        edgecolor=ORANGE,
        hatch="////",
        linewidth=0.8,
    )
    axes.text(101, row, f"{strip.first:,} – {strip.last:,}", va="center", fontsize=8, color=GREY)


def _sizes(report: AuditReport) -> Section:
    topics = sorted(report.topics(), key=lambda each: each.nbytes, reverse=True)
    shown = topics[:_TOPICS_AT_MOST]
    says = "The size of each topic in the tier, and its number of records."
    if len(shown) < len(topics):
        says += f" The {len(shown)} largest of {len(topics):,} topics."
    with Canvas(10, 0.9 + 0.32 * len(shown), columns=2) as canvas:
        bytes_axes, record_axes = canvas.axes[0]
        rows = list(range(len(shown)))
        _bars(bytes_axes, [topic.nbytes / 2**20 for topic in shown])
        bytes_axes.set_xlabel("size (MiB)")
        bytes_axes.set_yticks(rows, [label_of(topic.topic) for topic in shown])
        _bars(record_axes, [float(topic.totals.records) for topic in shown])
        record_axes.set_xlabel("records")
        record_axes.set_yticks(rows, [""] * len(shown))
        return Section("Sizes", says, canvas.svg())


def _bars(axes: Axes, values: Sequence[float]) -> None:
    axes.barh([float(row) for row in range(len(values))], values, color=BLUE, height=0.7)
    axes.set_ylim(-0.7, len(values) - 0.3)
    axes.set_xlim(0, max(values) * 1.05 or 1)
    axes.invert_yaxis()
    axes.grid(True, axis="x")
    axes.set_axisbelow(True)


def _segment_sizes(report: AuditReport) -> Section:
    sizes = [verdict.nbytes for verdict in report.verdicts]
    counts = [sum(low <= size < 2 * low for size in sizes) for low in _SIZE_STEPS]
    counts[0] += sum(size < _SIZE_STEPS[0] for size in sizes)
    filled = [index for index, count in enumerate(counts) if count]
    steps = range(max(filled[0] - 1, 0), min(filled[-1] + 2, len(_SIZE_STEPS)))
    says = (
        "The sizes of the segments. Many small segments cost needless requests: a larger "
        "segment.bytes or segment.ms makes fewer segments."
    )
    with Canvas(10, 2.6) as canvas:
        axes = canvas.axes[0][0]
        axes.bar(
            [float(step) for step in steps], [counts[step] for step in steps], color=BLUE, width=0.8
        )
        axes.set_xticks(
            [float(step) for step in steps], [human_bytes(_SIZE_STEPS[step]) for step in steps]
        )
        axes.set_xlabel("segment size (from the label up to twice that)")
        axes.set_ylabel("segments")
        axes.grid(True, axis="y")
        axes.set_axisbelow(True)
        return Section("Sizes of segments", says, canvas.svg())
