"""Whatever ends one large request, those behind it are answered."""

import asyncio
from collections.abc import Callable, Generator

import pytest

from tierlog.broker.request.large_requests import LargeRequests

Work = Generator[None, None, object]


class Shed:
    """The client of the first request is closed while its own slice runs."""

    answer: "asyncio.Future[object] | None" = None

    def work(self) -> Work:
        yield
        assert self.answer is not None
        self.answer.cancel()
        return "nobody reads this"


class GivenUp(Shed):
    """It asks for something that was cancelled."""

    def work(self) -> Work:
        given_up: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        given_up.cancel()
        yield
        return given_up.result()


class Failed(Shed):
    """Its handler has a fault, and its client is gone as well."""

    def work(self) -> Work:
        yield
        assert self.answer is not None
        self.answer.cancel()
        raise RuntimeError("a fault of ours")


def sound() -> Work:
    yield
    return "answered"


@pytest.mark.parametrize("kind", [Shed, GivenUp, Failed])
async def test_the_next_request_is_answered(kind: Callable[[], Shed]) -> None:
    queue, first = LargeRequests(), kind()
    first.answer = queue.submit(first.work())
    second = queue.submit(sound())
    for _ in range(20):
        await asyncio.sleep(0)
    assert first.answer.cancelled()
    assert second.done()
    assert second.result() == "answered"
