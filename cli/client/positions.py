"""Places in a partition, as people write them: `start`, `end`, `42`, `+5`, `-5`, `@TIME`, `a:b`.

The grammar is rpk's: `+N` counts from the start, `-N` from the end, `@` begins a time: seconds
(10 digits), milliseconds (13), a date (RFC 3339), or a duration before now (`@-1h30m`). kcat's
`beginning`, `s@MS` and `e@MS` are understood, too. A range has a colon: `-5:end`, `@-1h:@-30m`.
"""

import re
from collections.abc import Collection
from datetime import UTC, datetime
from typing import NamedTuple

from ...clients.admin import Admin
from ...clients.offset_names import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ...clients.runtime.environment import SystemEnvironment
from ...clients.topic_partition import TopicPartition
from .address import UsageError

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(?:\d{1,9}(?:ms|[smhd]))+")
_PART = re.compile(r"(\d{1,9})(ms|[smhd])")
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


class Place(NamedTuple):
    """An absolute offset, a distance from the start or the end, or a time; one of them is set."""

    offset: int | None = None
    from_start: int | None = None
    from_end: int | None = None
    time_ms: int | None = None
    ago_ms: int | None = None


START = Place(from_start=0)
END = Place(from_end=0)


class Range(NamedTuple):
    """Where to begin, and before which place to stop; without an end it goes on for ever."""

    start: Place
    end: Place | None


def parse_range(text: str) -> Range:
    """A range, or a place to begin at. Raises UsageError."""
    if text.startswith("s@"):
        return Range(parse_place(text[1:]), None)
    if text.startswith("e@"):
        return Range(START, parse_place(text[1:]))
    if ":" in text and not _is_place(text):
        # A date has colons of its own: the one that counts has a place on both sides.
        for colon in re.finditer(":", text):
            before, after = text[: colon.start()], text[colon.end() :]
            if before.startswith("@") and _is_place(f"@{after}"):
                after = f"@{after}"
            if all(not each or _is_place(each) for each in (before, after)):
                return Range(parse_place(before or "start"), parse_place(after) if after else None)
    return Range(parse_place(text), None)


def _is_place(text: str) -> bool:
    try:
        parse_place(text)
    except UsageError:
        return False
    return True


def parse_place(text: str) -> Place:
    """One place. Raises UsageError."""
    if text in ("start", "beginning", "earliest"):
        return START
    if text in ("end", "latest"):
        return END
    if text.startswith("@"):
        return _time(text)
    if _NUMBER.fullmatch(text):
        number = abs(int(text))
        if text[0] == "+":
            return Place(from_start=number)
        return Place(from_end=number) if text[0] == "-" else Place(offset=number)
    raise UsageError(
        f"{text!r} is not a valid position: write start, end, an offset, +N, -N, @TIME or @-1h."
    )


def _time(text: str) -> Place:
    stated = text[1:]
    if stated[:1] == "-" and _DURATION.fullmatch(stated[1:]):
        return Place(ago_ms=sum(int(n) * _UNITS_MS[unit] for n, unit in _PART.findall(stated[1:])))
    if stated.isascii() and stated.isdigit() and len(stated) in (10, 13):
        return Place(time_ms=int(stated) * (1000 if len(stated) == 10 else 1))
    try:
        moment = datetime.fromisoformat(stated)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a valid time: write seconds (10 digits), milliseconds (13), a date"
            " such as 2026-01-31T12:00:00Z, or a duration before now such as @-1h30m."
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    # ListOffsets gives negative times other meanings: -1 is the end.
    return Place(time_ms=max(0, round(moment.timestamp() * 1000)))


async def places_of(
    admin: Admin,
    partitions: Collection[TopicPartition],
    place: Place,
    *,
    isolation_level: int = 0,
) -> dict[TopicPartition, int]:
    """The offset of the place in each partition, within start and end. Raises `KafkaError`.

    Where no record is as young as the time, it is the end.
    """

    async def named(timestamp: int) -> dict[TopicPartition, int]:
        looked_up = await admin.list_offsets(
            dict.fromkeys(partitions, timestamp), isolation_level=isolation_level
        )
        return {partition: answer.offset for partition, answer in looked_up.items()}

    starts = await named(EARLIEST_TIMESTAMP)
    ends = await named(LATEST_TIMESTAMP)
    time_ms = place.time_ms
    if place.ago_ms is not None:
        time_ms = max(0, SystemEnvironment().wall_clock_ms() - place.ago_ms)
    if time_ms is not None:
        at_time = await named(time_ms)
        return {each: at if at >= 0 else ends[each] for each, at in at_time.items()}
    offsets: dict[TopicPartition, int] = {}
    for partition in partitions:
        if place.offset is not None:
            offset = place.offset
        elif place.from_start is not None:
            offset = starts[partition] + place.from_start
        else:
            offset = ends[partition] - (place.from_end or 0)
        offsets[partition] = min(max(offset, starts[partition]), ends[partition])
    return offsets
