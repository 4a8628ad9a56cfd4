"""`GET /api/v1/…`: the status of a broker as JSON (docs/status-page.md).

An answer is collected in slices of a fifth of a millisecond, so that the broker's clients hardly
notice, and is shared by all who ask for it while it is young. An answer that takes long to collect
stays young for longer: collecting takes at most a twentieth of the time, however often clients ask.
"""

import asyncio
import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Generator, Mapping
from typing import NamedTuple, TypeVar, cast

from ...clients.task_owner import TaskOwner
from ..network.http_endpoint import Answer
from ..network.http_message import JSON, Request, Response
from .cluster_status import brokers_status, overview_status
from .fetch_status import fetch_status
from .group_status import groups_status
from .sources import Json, StatusSources, Steps
from .tier_status import tier_status
from .topic_status import topic_status, topics_status

T = TypeVar("T")

_log = logging.getLogger(__name__)

SLICE_S = 0.0002
"""How long collecting keeps the event loop busy before others get their turn."""
AGE_MAX_S = 0.5
AGE_FACTOR = 20
"""An answer is shared for this many times the time that it took to collect, if that is longer."""
_ANSWERS_MAX = 16
_COLLECTIONS_MAX = 8
_DIGITS_MAX = 19

_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class _Recent(NamedTuple):
    """An answer, and until when it is shared."""

    response: Response
    until: float


def problem(status: int, sentence: str) -> Response:
    """An error as JSON."""
    return Response(status, encoded_text({"error": sentence}), JSON)


def encoded_text(value: Mapping[str, object]) -> bytes:
    """A small object as JSON; a lone surrogate of a name becomes a question mark."""
    return _json(value).encode("utf-8", "replace")


def encoded(status: Json) -> Generator[None, None, bytes]:
    """An object as JSON, element by element of its lists, in steps."""
    members: list[str] = []
    for name, value in status.items():
        if isinstance(value, list):
            elements: list[str] = []
            for element in cast("list[object]", value):
                elements.append(_json(element))
                yield
            members.append(f"{_json(name)}:[{','.join(elements)}]")
        else:
            members.append(f"{_json(name)}:{_json(value)}")
    return f"{{{','.join(members)}}}\n".encode("utf-8", "replace")


def answer_steps(steps: Steps) -> Generator[None, None, Response]:
    """The response with what the steps collect, in steps."""
    status = yield from steps
    body = yield from encoded(status)
    return Response(200, body, JSON, hashlib.blake2b(body, digest_size=12).hexdigest())


async def in_slices(steps: Generator[None, None, T]) -> T:
    """Run the steps; other tasks run each time that `SLICE_S` has passed."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SLICE_S
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("T", end.value)
        if loop.time() >= until:
            await asyncio.sleep(0)
            until = loop.time() + SLICE_S


class StatusApi:
    """Answers requests for the status of one broker."""

    def __init__(self, sources: StatusSources) -> None:
        self._sources = sources
        self._tasks = TaskOwner(_COLLECTIONS_MAX, self._failed)
        self._recent: OrderedDict[tuple[str, ...], _Recent] = OrderedDict()
        self._under_way: dict[tuple[str, ...], asyncio.Future[Response]] = {}

    async def stop(self) -> None:
        """Stop collecting. Idempotent."""
        await self._tasks.stop()
        self._recent.clear()

    def answer(self, request: Request) -> Answer:
        """The answer to a request for an address below `/api/v1/`."""
        numbers = _numbers(request.query)
        if numbers is None:
            return problem(
                400, "A query has numbers only, such as ?from=20 or ?partition=0&offset=5."
            )
        names = request.segments[2:]
        key = (*names, request.query)
        recent = self._recent.get(key)
        if recent is not None and asyncio.get_running_loop().time() < recent.until:
            return recent.response
        pending = self._under_way.get(key)
        if pending is not None:
            return pending
        steps = self._steps(names, numbers)
        if isinstance(steps, Response):
            return steps
        if len(self._tasks) >= _COLLECTIONS_MAX:
            steps.close()
            return problem(503, "The broker collects other answers: try again in a second.")
        task = self._tasks.start(self._collect(key, steps), "status")
        self._under_way[key] = task
        task.add_done_callback(lambda _: self._under_way.pop(key, None))
        return task

    def _steps(self, names: tuple[str, ...], numbers: Mapping[str, int]) -> Steps | Response:
        sources, begin = self._sources, numbers.get("from", 0)
        match names:
            case ("overview",):
                return overview_status(sources)
            case ("topics",):
                return topics_status(sources, begin)
            case ("topics", name):
                topic = sources.image.topics_by_name.get(name)
                if topic is None:
                    return problem(404, f"There is no topic {name}.")
                return topic_status(sources, topic, begin)
            case ("topics", name, "fetch"):
                return self._fetch(name, numbers.get("partition", 0), numbers.get("offset", 0))
            case ("groups",):
                return groups_status(sources, begin)
            case ("tier",):
                return tier_status(sources, begin)
            case ("brokers",):
                return brokers_status(sources, begin)
            case _:
                return problem(404, "There is no such address: see docs/status-page.md.")

    def _fetch(self, topic: str, partition: int, offset: int) -> Response:
        log = self._sources.log(topic, partition)
        if log is None:
            return problem(404, f"This broker has no replica of {topic}-{partition}.")
        return Response(200, encoded_text(fetch_status(self._sources, log, offset)), JSON)

    async def _collect(self, key: tuple[str, ...], steps: Steps) -> Response:
        loop = asyncio.get_running_loop()
        began = loop.time()
        response = await in_slices(answer_steps(steps))
        now = loop.time()
        age = max(AGE_MAX_S, AGE_FACTOR * (now - began))
        self._recent[key] = _Recent(response, now + age)
        self._recent.move_to_end(key)
        if len(self._recent) > _ANSWERS_MAX:
            self._recent.popitem(last=False)
        return response

    def _failed(self, task: asyncio.Task[object], failure: BaseException) -> None:
        _log.error("Internal error while collecting the status", exc_info=failure)


def _numbers(query: str) -> dict[str, int] | None:
    """The numbers of a query, by their names; None if there is anything else."""
    numbers: dict[str, int] = {}
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        if not (value.isascii() and value.isdigit() and len(value) <= _DIGITS_MAX):
            return None
        numbers[name] = int(value)
    return numbers
