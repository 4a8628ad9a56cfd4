"""Requests that a library gives up by itself fail as requests, and cancel nobody."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count, cycle
from typing import TypeVar

import pytest

from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tiering.blocking_pool import BlockingPool, ThreadedPool
from tierlog.tiering.store.native_store import (
    NativeStore,
    ObjectStoreClient,
    UnfinishedUpload,
    Upload,
)
from tierlog.tiering.store.request_deadline import RequestDeadline
from tierlog.tiering.store.tier_store import PIECE_BYTES, Source, TierObject

pytestmark = pytest.mark.usefixtures("loop")

T = TypeVar("T")


class _Slice:
    def __init__(self, size: int) -> None:
        self._size = size

    def read(self) -> bytes:
        return bytes(self._size)


def of_size(size: int) -> Source:
    """An object to be stored."""
    return Source(size, lambda _, some: _Slice(some), ThreadedPool(1, "test"))


class Broken:
    """A store whose library cancels the request when its connection breaks, as aiohttp may."""

    parts_at_once = 2
    whole_bytes_max = PIECE_BYTES

    def __init__(self) -> None:
        self.breaks_at = 0
        self.parts: list[int] = []
        self.is_finished = self.is_aborted = self.is_closed = False

    async def _request(self, number: int) -> None:
        await asyncio.sleep(0.1)
        if number == self.breaks_at:
            raise asyncio.CancelledError

    async def put(self, path: str, content: bytes) -> None:
        await self._request(0)

    async def begin_upload(self, path: str, size: int) -> Upload:
        return self

    async def part(self, number: int, content: bytes) -> None:
        await self._request(number)
        self.parts.append(number)

    async def finish(self) -> None:
        self.is_finished = True

    async def abort(self) -> None:
        self.is_aborted = True

    async def get(self, path: str, start: int | None, end: int | None) -> bytes:
        await self._request(0)
        return b""

    async def remove(self, paths: Sequence[str]) -> list[Callable[[], Awaitable[object]]]:
        return [lambda: self._request(0)]

    async def beginnings(
        self, prefix: str, delimiter: str, after: str | None
    ) -> tuple[list[str], str | None]:
        return [], None

    async def page(self, prefix: str, after: str | None) -> tuple[list[TierObject], str | None]:
        await self._request(0)
        return [], None

    async def uploads(self, prefix: str) -> list[UnfinishedUpload]:
        return [UnfinishedUpload(f"{prefix}key", 0, lambda: self._request(0))]

    async def close(self) -> None:
        self.is_closed = True


def store_on(client: Broken, pool: BlockingPool | None = None) -> NativeStore:
    async def connect(pool: BlockingPool, deadline_s: float) -> tuple[ObjectStoreClient, str]:
        return client, "bucket"

    return NativeStore(
        lambda: connect, pool or ThreadedPool(1, "test"), RequestDeadline("s3://bucket", 30)
    )


async def each_request(store: NativeStore) -> list[BaseException | object]:
    return [
        *await asyncio.gather(
            store.put("key", of_size(10)),
            store.get("key", None, None),
            store.remove(["key"]),
            store.find(""),
            store.abort_uploads("", lambda _, __: True),
            return_exceptions=True,
        )
    ]


async def test_a_request_that_its_library_cancels_fails_like_a_broken_connection() -> None:
    failures = await each_request(store_on(Broken()))
    assert [type(failure) for failure in failures] == [ConnectionError] * 5


@pytest.mark.parametrize("number", range(3))
async def test_an_upload_that_loses_a_part_so_is_not_finished(number: int) -> None:
    client = Broken()
    client.breaks_at = number
    with pytest.raises(ConnectionError):
        await store_on(client).put("key", of_size(3 * PIECE_BYTES))
    assert number not in client.parts
    assert client.is_aborted
    assert not client.is_finished


async def test_whoever_is_cancelled_is_cancelled() -> None:
    client = Broken()
    client.breaks_at = -1
    waiting = asyncio.ensure_future(store_on(client).get("key", None, None))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


class Silent(Broken):
    """A store that answers when it pleases."""

    def __init__(self, *seconds: float) -> None:
        super().__init__()
        self._seconds = list(seconds)

    async def _request(self, number: int) -> None:
        await asyncio.sleep(self._seconds.pop(0))


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each for each in caplog.messages if "has not answered" in each]


async def test_a_store_that_is_silent_from_the_start_is_named_long_before_its_deadline(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_on(Silent(99, 99))
    asking = asyncio.ensure_future(store.find(""))
    await asyncio.sleep(4.9)
    assert not said(caplog)
    await asyncio.sleep(0.2)
    sentence = (
        "The remote tier s3://bucket has not answered for 5 s: waiting for its first "
        "answer, 30 s at most."
    )
    assert said(caplog) == [sentence]
    with pytest.raises(TimeoutError):
        await asking
    assert loop.time() == pytest.approx(30, abs=0.1)
    with pytest.raises(TimeoutError):
        await store.find("")
    assert said(caplog) == [sentence], "once"


async def test_a_store_that_has_answered_may_take_its_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its pieces may be large, and its line slow."""
    store = store_on(Silent(1, 20, 20))
    for _ask in range(3):
        await store.find("")
    assert not said(caplog)


class BusyPool(ThreadedPool):
    """The pool of a machine that is so busy that a call takes longer than a request may."""

    async def run(self, call: Callable[[], T]) -> T:
        await asyncio.sleep(40)
        return await super().run(call)


async def test_imports_that_take_long_are_not_the_stores_silence(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    assert await store_on(Silent(1), BusyPool(1, "test")).find("") == []
    assert loop.time() == pytest.approx(41, abs=0.1)
    assert not said(caplog)


class Endless(Broken):
    """A store whose listing has always one more page."""

    def __init__(self, tokens: Iterable[str], size: int) -> None:
        super().__init__()
        self._tokens = iter(tokens)
        self._size = size

    async def beginnings(
        self, prefix: str, delimiter: str, after: str | None
    ) -> tuple[list[str], str | None]:
        return [f"bucket/{number}/" for number in range(self._size)], next(self._tokens)

    async def page(self, prefix: str, after: str | None) -> tuple[list[TierObject], str | None]:
        return [TierObject(f"bucket/{each}", 1, None) for each in range(self._size)], next(
            self._tokens
        )


@pytest.mark.parametrize(
    ("tokens", "size"), [(cycle("a"), 3), (cycle("abc"), 3), (map(str, count()), 0)]
)
async def test_a_listing_that_goes_round_ends(tokens: Iterable[str], size: int) -> None:
    store = store_on(Endless(tokens, size))
    with pytest.raises(OSError, match="listing has no end"):
        await store.find("")
    with pytest.raises(OSError, match="listing has no end"):
        await store.find_beginnings("", "/")


async def test_pages_of_a_listing_are_joined_also_with_empty_ones_between() -> None:
    class Paged(Endless):
        async def page(self, prefix: str, after: str | None) -> tuple[list[TierObject], str | None]:
            number = int(after or 0)
            following = str(number + 1) if number < 3000 else None
            return [TierObject(f"bucket/{number}", 1, None)] if number % 999 == 0 else [], following

    found = await store_on(Paged([], 0)).find("")
    assert [each.key for each in found] == ["0", "999", "1998", "2997"]
