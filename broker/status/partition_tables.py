"""A partition as HTML tables, for browsers that draw no picture because they lack JavaScript."""

from typing import cast

from .html_table import (
    Column,
    Pieces,
    elements,
    number,
    number_column,
    rest_sentence,
    table,
    text_column,
)
from .sources import Json

_PLACES = {
    "remote": "tier only",
    "both": "tier and local",
    "local": "local only",
    "active": "active, local",
}
_MARKS = ("log_start", "local_start", "last_tiered", "last_stable", "high_watermark", "end")


def partition_tables(partition: Json) -> Pieces:
    """The tables of a partition's offsets, segments and groups."""
    title = f"Partition {number(partition['partition'])}"
    replicas, isr = (
        ", ".join(map(str, cast("list[int]", partition[name]))) for name in ("replicas", "isr")
    )
    leader = _number_or_none(partition["leader"])
    yield f"<h2>{title}</h2>\n<p>Leader {leader}; replicas {replicas}; in sync {isr or 'none'}; "
    yield f"{number(partition['bytes_local'])} bytes local, "
    yield f"{number(partition['bytes_remote'])} bytes in the tier.</p>\n"
    if partition["end"] is None:
        yield "<p>This broker has no replica of this partition: ask its leader.</p>\n"
        return
    marks: list[Json] = [{"name": mark.replace("_", " "), "at": partition[mark]} for mark in _MARKS]
    yield "<h3>Offsets</h3>\n"
    yield from table(f"{title}: offsets", _MARK_COLUMNS, marks)
    yield "<h3>Segments</h3>\n"
    yield from table(f"{title}: segments", _SEGMENT_COLUMNS, elements(partition, "segments"))
    yield rest_sentence(partition["more_segments"], "older segments")
    yield "<h3>Groups</h3>\n"
    yield from table(f"{title}: groups", _GROUP_COLUMNS, elements(partition, "groups"))
    yield rest_sentence(partition["more_groups"], "more groups")


def _number_or_none(of: object) -> str:
    """An offset or a broker's id, which is -1 where there is none."""
    return "none" if of == -1 else number(of)


def _span(segment: Json) -> str:
    base, end = cast("int", segment["base"]), cast("int", segment["end"])
    return f"{base:,} to {end - 1:,}" if end > base else f"from {base:,}, empty"


def _where(segment: Json) -> str:
    share = cast("float | None", segment["copying"])
    copying = "" if share is None else f", copy to the tier in flight ({share:.0%})"
    deleting = ", deletion from the tier pending" if segment["deleting"] else ""
    return _PLACES[str(segment["where"])] + copying + deleting


_MARK_COLUMNS = (
    text_column("Mark", "name"),
    Column("Offset", lambda each: _number_or_none(each["at"]), is_number=True),
)
_SEGMENT_COLUMNS = (
    Column("Offsets", _span),
    number_column("Bytes", "bytes"),
    Column("Where", _where),
)
_GROUP_COLUMNS = (
    text_column("Group", "group"),
    number_column("Committed", "offset"),
    number_column("Lag", "lag"),
    number_column("In the tier", "lag_in_tier"),
    number_column("Local", "lag_local"),
)
