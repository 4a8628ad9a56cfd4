"""The answers of the status API as HTML tables, for browsers without JavaScript.

    /tables                             the overview, the first topics, groups and brokers
    /tables/topics  groups  brokers     the whole list, page by page
    /tables/topics/T                    each partition: offsets, segments, groups with their lag

Pure: from the objects of `/api/v1/…` to a page, in pieces.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, cast
from urllib.parse import quote

from .html_table import (
    Column,
    Pieces,
    elements,
    number,
    number_column,
    table,
    text,
    text_column,
)
from .partition_tables import partition_tables
from .sources import Json

_NUMBERS = (
    *("topics", "partitions", "under_replicated", "offline", "groups"),
    *("bytes_local", "bytes_remote", "bytes_in", "bytes_out"),
)


class Room:
    """How many bytes of a page are written; its lists end once there are `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.size = 0
        self.left_out = 0
        """Elements of the last list for which there was no room."""

    def fitting(self, listed: list[Json]) -> Iterator[Json]:
        """The elements up to the one that fills the page."""
        self.left_out = len(listed)
        for element in listed:
            if self.size > self._most:
                return
            self.left_out -= 1
            yield element


class View(NamedTuple):
    """What a page shows: its address below `/tables`, and the first element of its list."""

    names: tuple[str, ...]
    begin: int

    def link(
        self, names: Iterable[str], words: str, query: str = "", *, is_current: bool = False
    ) -> str:
        """A link to a page of tables, relative to this one."""
        path = "/".join(("tables", *map(_quote, names)))
        current = ' aria-current="page"' if is_current else ""
        return f'<a href="{"../" * len(self.names)}{path}{query}"{current}>{text(words)}</a>'


def tables_page(view: View, status: Json, room: Room) -> Iterator[bytes]:
    """The page in pieces; `status` is that of the API, for the overview one of each name."""
    for piece in _page(view, status, room):
        encoded = piece.encode("utf-8", "replace")
        room.size += len(encoded)
        yield encoded


def _page(view: View, status: Json, room: Room) -> Pieces:
    root = "../" * len(view.names)
    title = _TITLES.get(view.names) or view.names[-1]
    pages = "".join(
        f"<li>{view.link(names, each, is_current=names == view.names)}</li>"
        for names, each in _TITLES.items()
    )
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(title)} – tierlog</title>\n"
        f'<link rel="icon" type="image/svg+xml" href="{root}icon.svg">\n'
        f'<link rel="stylesheet" href="{root}status.css">\n</head>\n<body>\n'
        '<a class="skip" href="#main">Skip to content</a>\n<header><p class="brand">tierlog</p>\n'
        f'<nav aria-label="Pages"><ul>{pages}</ul></nav></header>\n'
        f'<main id="main" tabindex="-1">\n<h1>{text(title)}</h1>\n'
    )
    match view.names:
        case ():
            yield from _overview(cast("Json", status["overview"]))
            for name, section in _SECTIONS.items():
                yield f"<h2>{name.capitalize()}</h2>\n"
                yield from section(view, cast("Json", status[name]), room)
        case (name,):
            yield from _SECTIONS[name](view, status, room)
        case _:
            yield from _topic(view, status, room)
    api = "/".join(map(_quote, view.names or ("overview",)))
    yield (
        "</main>\n<footer><p>Read only, and as of now: load it again to see what has changed. "
        f'The same as JSON: <a href="{root}api/v1/{api}">/api/v1/{text(api)}</a></p></footer>\n'
        "</body>\n</html>\n"
    )


def _quote(name: str) -> str:
    return quote(name, safe="", errors="replace")


def _overview(overview: Json) -> Pieces:
    tier = cast("Json", overview["tier"])
    yield f"<h2>Remote tier</h2>\n<p>{text(tier['sentence'])}</p>\n<h2>Cluster</h2>\n"
    rows: list[Json] = [
        {"name": name.replace("_", " "), "value": overview[name]} for name in _NUMBERS
    ]
    yield from table(
        "Cluster in numbers", (text_column("What", "name"), number_column("Number", "value")), rows
    )


def _topics(view: View, status: Json, room: Room) -> Pieces:
    def name(topic: Json) -> str:
        troubles = "".join(
            f' <span class="bad">{number(topic[each])} {words}</span>'
            for each, words in (("offline", "offline"), ("under_replicated", "under-replicated"))
            if topic[each]
        )
        return view.link(("topics", str(topic["name"])), str(topic["name"])) + troubles

    columns = (
        Column("Topic", name),
        Column("Groups and lag", lambda each: _lags(each, "group")),
        number_column("Partitions", "partitions"),
        number_column("Replicas", "replication"),
        number_column("Records", "records"),
        number_column("Bytes local", "bytes_local"),
        number_column("Bytes in the tier", "bytes_remote"),
    )
    yield from _list(
        view, status, room, "topics", "Topics, with the groups that read them", columns
    )


def _groups(view: View, status: Json, room: Room) -> Pieces:
    columns = (
        text_column("Group", "group"),
        text_column("State", "state"),
        text_column("Type", "type"),
        number_column("Lag", "lag"),
        number_column("In the tier", "lag_in_tier"),
        number_column("Local", "lag_local"),
        Column("Topics and lag", lambda each: _lags(each, "topic")),
        Column("Members", _members),
    )
    caption = "Groups that this broker coordinates"
    yield from _list(view, status, room, "groups", caption, columns)
    if status["loading"]:
        yield f"<p>{number(status['loading'])} partitions of __consumer_offsets are being read: "
        yield "their groups come later.</p>\n"


def _brokers(view: View, status: Json, room: Room) -> Pieces:
    def name(broker: Json) -> str:
        is_controller = broker["id"] == status["controller"]
        return f"{text(broker['id'])}{' (controller)' if is_controller else ''}"

    columns = (
        Column("Broker", name),
        Column("Address", lambda each: f"{text(each['host'])}:{text(each['port'])}"),
        text_column("Rack", "rack"),
        text_column("State", "state"),
        number_column("Leaders", "leaders"),
        number_column("Replicas", "replicas"),
        number_column("In sync", "in_sync"),
    )
    yield from _list(view, status, room, "brokers", "Brokers of the cluster", columns)


_SECTIONS: dict[str, Callable[[View, Json, Room], Pieces]] = {
    "topics": _topics,
    "groups": _groups,
    "brokers": _brokers,
}
_TITLES: dict[tuple[str, ...], str] = {
    (): "Overview",
    **{(name,): name.capitalize() for name in _SECTIONS},
}


def _topic(view: View, topic: Json, room: Room) -> Pieces:
    yield f"<p>{'Tiered' if topic['tiered'] else 'Not tiered: all of it is local'}.</p>\n"
    partitions = elements(topic, "partitions")
    for partition in room.fitting(partitions):
        yield from partition_tables(partition)
    yield _pager(view, view.names, topic, len(partitions) - room.left_out, room.left_out)
    configs = cast("dict[str, str]", topic["configs"])
    rows: list[Json] = [{"name": name, "value": configs[name]} for name in sorted(configs)]
    yield "<h2>Settings of its own</h2>\n"
    yield from table("Settings", (text_column("Name", "name"), text_column("Value", "value")), rows)


def _list(
    view: View, status: Json, room: Room, name: str, caption: str, columns: Sequence[Column]
) -> Pieces:
    """The table of a list that may go on on another page."""
    listed = elements(status, name)
    yield from table(caption, columns, room.fitting(listed))
    yield _pager(view, (name,), status, len(listed) - room.left_out, room.left_out)


def _pager(view: View, names: tuple[str, ...], status: Json, shown: int, left_out: int) -> str:
    more = cast("int", status["more"]) + left_out
    first = view.link(names, "First") if view.begin else ""
    following = f"?from={view.begin + shown}"
    onward = view.link(names, f"Next of {number(more)} more", following) if more else ""
    return f'<p class="pager">{first}{onward}</p>\n' if first or onward else ""


def _lags(element: Json, name: str) -> str:
    """The topics of a group or the groups of a topic, each with its lag."""
    items = [
        f"<li>{text(each[name])} {number(each['lag'])}</li>"
        for each in elements(element, f"{name}s")
    ]
    return _items(items, element[f"more_{name}s"])


def _members(group: Json) -> str:
    items = [
        f"<li>{text(element['client'])} {text(element['host'])} {text(element['member'])}</li>"
        for element in elements(group, "members")
    ]
    return _items(items, group["more_members"])


def _items(items: list[str], more: object) -> str:
    if more:
        items.append(f'<li class="quiet">{number(more)} more</li>')
    return f'<ul class="chips">{"".join(items)}</ul>' if items else text(None)
