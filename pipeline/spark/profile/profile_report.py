"""The report of a profile: tables for people, and lines of JSON for machines.

The `type` of a line is one of

    topic      sizes, records, compression
    codec      of a topic: batches, bytes stored and decompressed
    partition  of a topic: segments, records, bytes
    key        of a topic: one of its most frequent keys
    rate       of a topic: records and bytes per second in one step of time
    forecast   of a topic: what a retention would free
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ....clients.text_table import table
from ....tiering.tools.terminal import human_bytes
from .retention_forecast import Forecast
from .topic_profile import TopicProfile

KEYS_SHOWN = 10
_KEY_CHARACTERS = 48


@dataclass(frozen=True, slots=True)
class ProfileReport:
    """The whole result of a profile."""

    tier: str
    topics: Sequence[TopicProfile]
    """Empty with --forecast-only."""
    forecasts: Sequence[Forecast]


class Rows:
    """A table: its head, and its rows as text."""

    def __init__(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.head = list(head)
        self.rows = [list(row) for row in rows]

    def lines(self) -> list[str]:
        """The table as lines for a terminal."""
        return table(self.head, self.rows) if self.rows else []


def topic_table(report: ProfileReport) -> Rows:
    """A row for each topic."""
    head = ["topic", "partitions", "segments", "records", "size", "bytes a record", "compression"]
    head += ["tombstones", "largest partition"]
    return Rows(
        head,
        [
            [
                topic.topic,
                f"{len(topic.partitions):,}",
                f"{topic.segments:,}",
                f"{topic.records:,}",
                human_bytes(topic.nbytes),
                f"{topic.payload / topic.records:,.0f}" if topic.records else "–",
                f"{topic.whole.ratio:.2f}×",
                f"{topic.tombstones:,}",
                f"{largest_partition(topic):.1f}× the mean",
            ]
            for topic in report.topics
        ],
    )


def largest_partition(profile: TopicProfile) -> float:
    """The ratio of the largest partition's size to the mean."""
    sizes = [partition.nbytes for partition in profile.partitions.values()]
    return max(sizes) * len(sizes) / sum(sizes) if sum(sizes) else 1.0


def codec_table(report: ProfileReport) -> Rows:
    """A row for each codec of each topic."""
    head = ["topic", "codec", "batches", "records", "stored", "decompressed", "compression"]
    return Rows(
        head,
        [
            [
                topic.topic,
                codec,
                f"{totals.batches:,}",
                f"{totals.records:,}",
                human_bytes(totals.stored),
                human_bytes(totals.plain),
                f"{totals.ratio:.2f}×",
            ]
            for topic in report.topics
            for codec, totals in sorted(topic.codecs.items())
        ],
    )


def key_table(report: ProfileReport) -> Rows:
    """The most frequent keys of each topic with keys."""
    return Rows(
        ["topic", "different keys", "without a key", "key", "records", "share"],
        [
            [topic.topic, f"{topic.keys.distinct:,}", f"{topic.keys.nulls:,}", *cells]
            for topic in report.topics
            for cells in _key_cells(topic)
        ],
    )


def _key_cells(topic: TopicProfile) -> Iterator[list[str]]:
    error = topic.keys.error
    for key, count in topic.keys.top(KEYS_SHOWN):
        yield [key_text(key), counted_at_least(count, error), _share(count, error, topic.records)]
    if topic.keys.records and not topic.keys.counts:
        yield ["no key stands out", f"0 to {error:,}", _share(0, error, topic.records)]


def _share(count: int, error: int, records: int) -> str:
    """The share of all records; it is a range if the count is inexact."""
    least, most = 100 * count / records, 100 * (count + error) / records
    return f"{least:.2f} to {most:.2f} %" if error else f"{least:.2f} %"


def counted_at_least(count: int, error: int) -> str:
    """A count as text; it is a range if the count may be too low by `error`."""
    return f"{count:,} to {count + error:,}" if error else f"{count:,}"


def key_text(key: bytes) -> str:
    """A readable key: text if it is printable, else hexadecimal; truncated if long."""
    if not key:
        return "(empty)"
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = f"0x{key.hex()}"
    if not text.isprintable():
        text = f"0x{key.hex()}"
    return text if len(text) <= _KEY_CHARACTERS else f"{text[:_KEY_CHARACTERS]}…"


def forecast_table(report: ProfileReport) -> Rows:
    """A row for each topic and setting."""
    return Rows(
        ["topic", "setting", "has", "would free", "segments", "would keep"],
        [
            [
                forecast.topic,
                forecast.setting.name,
                human_bytes(forecast.nbytes),
                human_bytes(forecast.freed),
                f"{forecast.segments:,}",
                f"{100 * forecast.share:.1f} %",
            ]
            for forecast in report.forecasts
        ],
    )


def text_lines(report: ProfileReport) -> list[str]:
    """The report for a terminal."""
    lines: list[str] = []
    for title, rows in (
        ("sizes", topic_table(report)),
        ("compression", codec_table(report)),
        ("frequent keys", key_table(report)),
        ("retention forecast", forecast_table(report)),
    ):
        if rows.rows:
            lines += [*([""] if lines else []), f"{title}:", *rows.lines()]
    return lines


def json_lines(report: ProfileReport) -> Iterator[Mapping[str, object]]:
    """The report for machines, one object per line."""
    for topic in report.topics:
        yield _topic_fields(topic)
        yield from _part_lines(topic)
    for forecast in report.forecasts:
        yield {
            "type": "forecast",
            "topic": forecast.topic,
            "setting": forecast.setting.name,
            "retention_ms": forecast.setting.limits.retention_ms,
            "retention_bytes": forecast.setting.limits.retention_bytes,
            "bytes": forecast.nbytes,
            "freed_bytes": forecast.freed,
            "freed_segments": forecast.segments,
        }


def _topic_fields(topic: TopicProfile) -> dict[str, object]:
    return {
        "type": "topic",
        "topic": topic.topic,
        "partitions": len(topic.partitions),
        "segments": topic.segments,
        "records": topic.records,
        "markers": topic.markers,
        "tombstones": topic.tombstones,
        "bytes": topic.nbytes,
        "payload_bytes": topic.payload,
        "compression": round(topic.whole.ratio, 4),
        "different_keys": topic.keys.distinct,
        "without_key": topic.keys.nulls,
        "record_sizes": {str(power): n for power, n in sorted(topic.sizes.counts.items())},
    }


def _part_lines(topic: TopicProfile) -> Iterator[Mapping[str, object]]:
    of = {"topic": topic.topic}
    for codec, totals in sorted(topic.codecs.items()):
        yield {
            "type": "codec",
            **of,
            "codec": codec,
            "batches": totals.batches,
            "records": totals.records,
            "stored_bytes": totals.stored,
            "plain_bytes": totals.plain,
        }
    for number, partition in sorted(topic.partitions.items()):
        yield {
            "type": "partition",
            **of,
            "partition": number,
            "segments": partition.segments,
            "records": partition.records,
            "bytes": partition.nbytes,
        }
    for key, count in topic.keys.top(KEYS_SHOWN):
        yield {
            "type": "key",
            **of,
            "key": key_text(key),
            "records_at_least": count,
            "records_at_most": count + topic.keys.error,
        }
    for time_ms, records, nbytes in topic.rates.rates():
        yield {
            "type": "rate",
            **of,
            "timestamp_ms": time_ms,
            "seconds": topic.rates.width_ms // 1000,
            "records_per_s": records,
            "bytes_per_s": nbytes,
        }
