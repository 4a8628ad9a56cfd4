"""`GET /api/v1/…`: the status of a broker as JSON; `GET /tables…`: the same as plain HTML.

What an answer consists of is collected in steps by the other modules here; when it is collected,
and who shares it, is in `collector.py`. Both forms are described in docs/status-page.md.
"""

import hashlib
import json
from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple, TypeAlias, cast

from ..network.http_endpoint import Answer
from ..network.http_message import HTML, JSON, Request, Response, plain
from .cluster_status import brokers_status, overview_status
from .collector import Collector
from .fetch_status import fetch_status
from .group_status import groups_status
from .sources import Json, StatusSources, Steps
from .status_tables import Room, View, tables_page
from .tier_status import tier_status
from .topic_status import topic_status, topics_status

AGE_S = 0.5
"""How long an answer is shared, unless collecting it takes long."""
BODY_MAX = 4 << 20
"""Bytes of an answer after which its list ends; the elements that are left out are in `more`."""
_DIGITS_MAX = 19
_TABLES = ("topics", "groups", "brokers")
"""Lists that `/tables` has, and of which each has a page of its own."""

_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class _Resource(NamedTuple):
    """What a request asks for: the key of its answer, and what collects it."""

    key: tuple[str | int, ...]
    collect: Callable[[], Steps]


class _Problem(NamedTuple):
    """Why there is no answer."""

    status: int
    sentence: str


_NO_ADDRESS = _Problem(404, "There is no such address: see docs/status-page.md.")
_NO_QUERY = _Problem(400, "A query has numbers only, such as ?from=20 or ?partition=0&offset=5.")


def problem(status: int, message: str) -> Response:
    """An error as JSON."""
    return Response(status, encoded_text({"error": message}), JSON)


def encoded_text(value: object) -> bytes:
    """A small object as JSON; a lone surrogate of a name becomes a question mark."""
    return _json(value).encode("utf-8", "replace")


_Pieces: TypeAlias = Generator[bytes, None, None]


def encoded(status: Json) -> _Pieces:
    """An object as JSON in pieces, of which none is longer than an element of its lists."""
    separator, left_out = b"{", 0
    size = 0
    for name, value in status.items():
        if not isinstance(value, list):
            counted = cast("int", value) + left_out if name == "more" else value
            piece = b"%b%b:%b" % (separator, encoded_text(name), encoded_text(counted))
            separator = b","
            yield piece
            continue
        opening = b"%b%b:[" % (separator, encoded_text(name))
        separator = b","
        elements = cast("list[object]", value)
        for number, element in enumerate(elements):
            if size > BODY_MAX and "more" in status:
                left_out = len(elements) - number
                break
            piece = opening + encoded_text(element)
            opening = b","
            size += len(piece)
            yield piece
        yield b"]" if opening == b"," else opening + b"]"
    yield b"}\n"


def answer_steps(steps: Steps) -> Generator[None, None, Response]:
    """The response with what the steps collect, in steps."""
    status = yield from steps
    return (yield from _join(encoded(status), JSON))


def tables_steps(steps: Steps, view: View) -> Generator[None, None, Response]:
    """The response with a page of tables of what the steps collect, in steps."""
    status = yield from steps
    return (yield from _join(tables_page(view, status, Room(BODY_MAX)), HTML))


def _join(parts: Iterator[bytes], content_type: str) -> Generator[None, None, Response]:
    pieces: list[bytes] = []
    digest = hashlib.blake2b(digest_size=12)
    for piece in parts:
        digest.update(piece)
        pieces.append(piece)
        yield
    return Response(200, b"".join(pieces), content_type, digest.hexdigest())


def _all_tables(sources: StatusSources) -> Steps:
    """What the first page of tables shows, under the names of the API."""
    return {
        "overview": (yield from overview_status(sources)),
        "topics": (yield from topics_status(sources, 0)),
        "groups": (yield from groups_status(sources, 0)),
        "brokers": (yield from brokers_status(sources, 0)),
    }


class StatusApi:
    """Answers requests for the status of one broker."""

    def __init__(self, sources: StatusSources, collector: Collector) -> None:
        self._sources = sources
        self._collector = collector

    def answer(self, request: Request) -> Answer:
        """The answer to a request for an address below `/api/v1/`."""
        numbers, names = _numbers(request.query), request.segments[2:]
        if numbers is None:
            return problem(*_NO_QUERY)
        match names:
            case ("topics", name, "fetch"):
                return self._fetch(name, numbers.get("partition", 0), numbers.get("offset", 0))
            case _:
                resource = self._resource(names, numbers.get("from", 0))
        if isinstance(resource, _Problem):
            return problem(*resource)
        return self._collector.answer(
            ("api", *resource.key), lambda: answer_steps(resource.collect()), AGE_S
        )

    def answer_tables(self, request: Request) -> Answer:
        """The answer to a request for `/tables` or an address below it."""
        numbers, names = _numbers(request.query), request.segments[1:]
        if numbers is None:
            return plain(*_NO_QUERY)
        begin = numbers.get("from", 0) if names else 0
        resource = self._tables(names, begin)
        if isinstance(resource, _Problem):
            return plain(*resource)
        view = View(names, begin)
        return self._collector.answer(
            ("tables", *resource.key), lambda: tables_steps(resource.collect(), view), AGE_S
        )

    def _tables(self, names: tuple[str, ...], begin: int) -> _Resource | _Problem:
        match names:
            case ():
                return _Resource(names, lambda: _all_tables(self._sources))
            case ("topics", _):
                return self._resource(names, begin)
            case (name,) if name in _TABLES:
                return self._resource(names, begin)
            case _:
                return _NO_ADDRESS

    def _resource(self, names: tuple[str, ...], begin: int) -> _Resource | _Problem:
        sources = self._sources
        match names:
            case ("overview",):
                return _Resource(names, lambda: overview_status(sources))
            case ("topics",):
                return _Resource((*names, begin), lambda: topics_status(sources, begin))
            case ("topics", name):
                topic = sources.image.topics_by_name.get(name)
                if topic is None:
                    return _Problem(404, f"There is no topic {name}.")
                return _Resource(
                    (*names, begin, topic.topic_id.hex()),
                    lambda: topic_status(sources, topic, begin),
                )
            case ("groups",):
                return _Resource((*names, begin), lambda: groups_status(sources, begin))
            case ("tier",):
                return _Resource((*names, begin), lambda: tier_status(sources, begin))
            case ("brokers",):
                return _Resource((*names, begin), lambda: brokers_status(sources, begin))
            case _:
                return _NO_ADDRESS

    def _fetch(self, topic: str, partition: int, offset: int) -> Response:
        log = self._sources.log(topic, partition)
        if log is None:
            return problem(404, f"This broker has no replica of {topic}-{partition}.")
        return Response(200, encoded_text(fetch_status(self._sources, log, offset)), JSON)


def _numbers(query: str) -> dict[str, int] | None:
    """The numbers of a query, by their names; None if there is anything else."""
    numbers: dict[str, int] = {}
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        if not (value.isascii() and value.isdigit() and len(value) <= _DIGITS_MAX):
            return None
        numbers[name] = int(value)
    return numbers
