"""The status as HTML tables: all text stays text, and each table can be read aloud."""

from html.parser import HTMLParser
from itertools import pairwise
from typing import Any, cast
from urllib.parse import urljoin

import pytest

from tierlog.broker.status.status_tables import Room, View, tables_page

from .page.documented_answers import documented

HOSTILE = "<img src=x onerror=alert(1)>\"&'</td>"
MOST = 4 << 20
TOPIC = ("topics", "orders")


class _Reader(HTMLParser):
    """The elements of a page, and its text without white space at its ends."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts += filter(None, [data.strip()])

    def count(self, tag: str, **attributes: str) -> int:
        """How many elements of that name have these attributes."""
        return sum(each == tag and attributes.items() <= has.items() for each, has in self.elements)

    def links(self, address: str) -> set[str]:
        """Where the links lead to from that address."""
        return {
            urljoin(address, has["href"] or "")
            for tag, has in self.elements
            if tag in ("a", "link")
        }


def page(names: tuple[str, ...], status: dict[str, Any], begin: int = 0, most: int = MOST) -> str:
    """The page as it is sent."""
    return b"".join(tables_page(View(names, begin), status, Room(most))).decode()


def read(names: tuple[str, ...], status: dict[str, Any], begin: int = 0) -> _Reader:
    """The elements and the text of a page."""
    reader = _Reader()
    reader.feed(page(names, status, begin))
    return reader


def status_of(names: tuple[str, ...]) -> dict[str, Any]:
    """The documented answers of which a page consists."""
    answers = documented()
    of_page: dict[str, Any] = answers["topics/T"] if names else answers
    return of_page


def _with_name(value: object, name: str) -> object:
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {
            key: member if key == "where" else _with_name(member, name)
            for key, member in members.items()
        }
    if isinstance(value, list):
        return [_with_name(element, name) for element in cast("list[object]", value)]
    return name if isinstance(value, str) else value


def with_name(status: dict[str, Any], name: str) -> dict[str, Any]:
    """A copy of an answer where each text is `name`, but for where a segment is."""
    return cast("dict[str, Any]", _with_name(status, name))


@pytest.mark.parametrize("names", [(), TOPIC])
def test_a_name_with_markup_in_it_is_text(names: tuple[str, ...]) -> None:
    plain = read(names, status_of(names))
    shown = read(names, with_name(status_of(names), HOSTILE))
    assert [tag for tag, _ in shown.elements] == [tag for tag, _ in plain.elements]
    assert HOSTILE in shown.texts
    written = page(names, with_name(status_of(names), HOSTILE))
    assert "<img" not in written
    assert "&lt;img src=x onerror=alert(1)&gt;&quot;&amp;&#x27;&lt;/td&gt;" in written


def test_the_name_of_a_topic_in_an_address_is_text_too() -> None:
    reader = read(("topics", HOSTILE), status_of(TOPIC))
    assert reader.count("img") == 0
    assert reader.texts.count(HOSTILE) == 1
    topics = with_name(documented()["topics"], "a/../<b>?#")
    assert "http://h/tables/topics/a%2F..%2F%3Cb%3E%3F%23" in read(("topics",), topics).links(
        "http://h/tables/topics"
    )


def test_a_name_cannot_turn_what_stands_beside_it_around() -> None:
    written = page((), with_name(documented(), "a\u202eb\nc\ud800"))
    assert "a\ufffdb\ufffdc?" in written
    assert "\u202e" not in written


@pytest.mark.parametrize("names", [(), TOPIC])
def test_each_table_has_a_caption_and_heads_of_its_rows_and_columns(names: tuple[str, ...]) -> None:
    reader = read(names, status_of(names))
    tables = reader.count("table")
    assert tables == 4
    assert tables == reader.count("caption") == reader.count("div", role="region", tabindex="0")
    rows = reader.count("tr")
    assert reader.count("th", scope="row") == rows - tables
    assert reader.count("th") == reader.count("th", scope="row") + reader.count("th", scope="col")
    levels = [int(tag[1]) for tag, _ in reader.elements if tag in ("h1", "h2", "h3")]
    assert (levels[0], levels.count(1)) == (1, 1)
    assert all(level <= before + 1 for before, level in pairwise(levels))
    assert reader.count("html", lang="en") == reader.count("main") == reader.count("title") == 1


@pytest.mark.parametrize("names", [(), TOPIC])
def test_the_policy_has_nothing_to_refuse(names: tuple[str, ...]) -> None:
    reader = read(names, status_of(names))
    assert {"script", "style", "iframe", "form"}.isdisjoint(tag for tag, _ in reader.elements)
    attributes = {name for _, has in reader.elements for name in has}
    assert "style" not in attributes
    assert not [name for name in attributes if name.startswith("on")]
    address = "/".join(("http://h", "tables", *names))
    pages = {f"http://h/tables{each}" for each in ("", "/topics", "/groups", "/brokers")}
    assert reader.links(address) >= {"http://h/status.css", "http://h/icon.svg", *pages}


def test_the_tables_of_a_topic_say_what_its_picture_shows() -> None:
    texts = read(TOPIC, status_of(TOPIC)).texts
    row = texts.index("5,000 to 5,999")
    assert texts[row + 2] == "local only, copy to the tier in flight (50%)"
    row = texts.index("0 to 999")
    assert texts[row : row + 3] == [
        *("0 to 999", "1,048,576"),
        "tier only, deletion from the tier pending",
    ]
    assert {"tier and local", "active, local"} <= set(texts)
    row = texts.index("last tiered")
    assert texts[row + 1] == "4,999"
    row = texts.index("billing")
    assert texts[row + 1 : row + 5] == ["2,500", "5,500", "500", "5,000"]


def test_what_a_broker_does_not_have_is_a_dash_or_a_sentence() -> None:
    topic = status_of(TOPIC)
    partition = topic["partitions"][0]
    partition.update(last_tiered=-1, segments=[{**partition["segments"][-1], "end": 7000}])
    texts = read(TOPIC, topic).texts
    assert texts[texts.index("last tiered") + 1] == "none"
    assert "from 7,000, empty" in texts
    partition.update(leader=-1, isr=[], end=None, bytes_local=None, bytes_remote=None)
    texts = read(TOPIC, topic).texts
    assert "This broker has no replica of this partition: ask its leader." in texts
    assert any(each.startswith("Leader none; replicas 1; in sync none; – bytes") for each in texts)


def test_the_tables_of_an_empty_broker_stand() -> None:
    answers = documented()
    for name in ("topics", "groups", "brokers"):
        answers[name][name] = []
    reader = read((), answers)
    assert (reader.count("table"), reader.texts.count("none")) == (4, 3)


def test_a_list_that_is_cut_says_how_many_come_after_it_and_where() -> None:
    groups = documented()["groups"]
    groups.update(more=1200, loading=2)
    groups["groups"][0].update(more_topics=3, more_members=4000)
    reader = read(("groups",), groups, begin=500)
    links = reader.links("http://h/tables/groups")
    assert {"http://h/tables/groups", "http://h/tables/groups?from=501"} <= links
    assert {"First", "Next of 1,200 more", "3 more", "4,000 more"} <= set(reader.texts)
    topic = status_of(TOPIC)
    topic["partitions"][0].update(more_segments=1, more_groups=5)
    topic["more"] = 7
    reader = read(TOPIC, topic)
    assert "http://h/tables/topics/orders?from=1" in reader.links("http://h/tables/topics/orders")
    assert {"1 older segments not listed.", "5 more groups not listed."} <= set(reader.texts)


def test_a_list_ends_where_the_page_is_large() -> None:
    topics = documented()["topics"]
    topics["topics"] = [{**topics["topics"][0], "name": f"t{number}"} for number in range(100)]
    topics["more"] = 7
    written = page(("topics",), topics, begin=20, most=5_000)
    listed = written.count('<th scope="row">')
    assert 0 < listed < 100
    assert len(written) < 6_500
    assert f'href="../tables/topics?from={20 + listed}">Next of {107 - listed} more<' in written
    # The lists after it leave everything to their own pages.
    answers = {**documented(), "topics": topics}
    assert 'href="tables/groups?from=0">Next of 1 more<' in page((), answers, most=5_000)
