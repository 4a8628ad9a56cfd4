"""Forecasts what a shorter retention would free, by the broker's own rules on the tier's segments.

`storage/remote/remote_retention.py` decides for each partition which segments `retention.ms` or
`retention.bytes` would delete now; this module only adds up their sizes. Whole segments are
deleted, oldest first, and even the newest one in the tier if its records are old enough. Data that
is only on the broker's disk is not counted, so `retention.bytes` actually frees a little more.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ....clients.errors import ErrorCode, KafkaError
from ....clients.topic_partition import TopicPartition
from ....storage.remote.remote_retention import LogFacts, RetentionLimits, decide_retention
from ....storage.remote.remote_segment import RemoteLogSegmentMetadata
from ....tiering.store.manifest import Manifest
from ....tiering.store.object_keys import object_stem
from ....tiering.tools.lineage_choice import TierLineage, remote_log_of

NO_LIMIT = -1

_TIMES_MS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 7 * 86_400_000,
}
_SIZES = {
    "B": 1,
    **{f"{letter}iB": 1 << 10 * power for power, letter in enumerate("KMGT", 1)},
}

USUAL_TIMES = ("1h", "6h", "1d", "3d", "7d", "14d", "30d", "90d", "180d", "365d")


class Setting(NamedTuple):
    """A retention to forecast."""

    name: str
    """As the user wrote it, such as retention.ms=7d."""
    limits: RetentionLimits


class Forecast(NamedTuple):
    """The effect of a setting, if it were set for one topic now."""

    topic: str
    setting: Setting
    nbytes: int
    """The topic's size now."""
    freed: int
    """Bytes of all objects that would be deleted."""
    segments: int
    """Segments that would be deleted."""

    @property
    def share(self) -> float:
        """The share of the topic's bytes that would remain, from 0 to 1."""
        return 1 - self.freed / self.nbytes if self.nbytes else 1.0


def time_setting(text: str) -> Setting:
    """Parse a time such as 7d or 604800000. Raises KafkaError(INVALID_CONFIG)."""
    number = _number(text, _TIMES_MS, "ms")
    if number is None:
        raise _bad(f"--retention-ms {text} is not a time such as 12h, 7d or 604800000.")
    return Setting(f"retention.ms={text}", RetentionLimits(number, NO_LIMIT))


def size_setting(text: str) -> Setting:
    """Parse a size such as 10GiB or 10737418240. Raises KafkaError(INVALID_CONFIG)."""
    number = _number(text, _SIZES, "B")
    if number is None:
        raise _bad(f"--retention-bytes {text} is not a size such as 500MiB, 10GiB or 1073741824.")
    return Setting(f"retention.bytes={text}", RetentionLimits(NO_LIMIT, number))


def _number(text: str, units: Mapping[str, int], usual: str) -> int | None:
    match = re.fullmatch(r"(\d{1,15})([A-Za-z]*)", text.strip())
    if match is None or (match[2] or usual) not in units:
        return None
    return int(match[1]) * units[match[2] or usual]


def forecasts(
    lineages: Mapping[TopicPartition, TierLineage],
    manifests: Mapping[str, Manifest],
    settings: Sequence[Setting],
    now_ms: int,
) -> list[Forecast]:
    """The forecast of each setting for each topic, in order."""
    forecasts: list[Forecast] = []
    for topic in sorted({lineage.topic for lineage in lineages}):
        own = [
            lineage for partition, lineage in sorted(lineages.items()) if partition.topic == topic
        ]
        total = sum(_nbytes(manifests, lineage.segments) for lineage in own)
        for setting in settings:
            expired = [
                segment
                for lineage in own
                for segment in _expired_segments(lineage, setting.limits, now_ms)
            ]
            freed = _nbytes(manifests, expired)
            forecasts.append(Forecast(topic, setting, total, freed, len(expired)))
    return forecasts


def _expired_segments(
    lineage: TierLineage, limits: RetentionLimits, now_ms: int
) -> list[RemoteLogSegmentMetadata]:
    remote = remote_log_of(lineage.topic_id_partition, lineage.segments)
    end = lineage.log_end_offset
    facts = LogFacts(lineage.history, lineage.log_start_offset, end, end, 0)
    return [each.segment for each in decide_retention(remote, facts, limits, now_ms).expired]


def _nbytes(manifests: Mapping[str, Manifest], segments: Iterable[RemoteLogSegmentMetadata]) -> int:
    present = (manifests[object_stem(segment)] for segment in segments)
    return sum(part.size for manifest in present for part in manifest.parts.values())


def _bad(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
