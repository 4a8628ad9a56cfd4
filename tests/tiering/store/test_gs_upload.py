"""A resumable upload to Google Cloud Storage: only what the store says it has counts as sent."""

import asyncio
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.store.gs_store import GsClient

SIZE = 30


class Answer(NamedTuple):
    """What the store keeps of a request, and what it says."""

    keeps: int
    says_range: bool = True


class ResumableStore:
    """Persists as many bytes of each request as its script has it; all, when that has ended."""

    def __init__(self, *script: Answer) -> None:
        self.script = list(script)
        self.content = b""
        self.requests: list[str] = []
        self.credentials = SimpleNamespace(maybe_refresh=lambda: None)

    async def _call(
        self, method: str, location: str, headers: dict[str, str], data: bytes
    ) -> tuple[dict[str, str], bytes]:
        self.requests.append(headers["Content-Range"])
        begins = int(headers["Content-Range"].removeprefix("bytes ").partition("-")[0])
        assert begins == len(self.content)
        answer = self.script.pop(0) if self.script else Answer(SIZE)
        self.content += data[: answer.keeps]
        if len(self.content) == SIZE:
            return {}, b'{"kind": "storage#object", "name": "key"}'
        has_range = answer.says_range and self.content
        return ({"Range": f"bytes=0-{len(self.content) - 1}"} if has_range else {}), b""


async def _location(*_: object, **__: object) -> str:
    return "https://upload"


def upload(store: ResumableStore, parts: list[bytes]) -> None:
    library: Any = SimpleNamespace(initiate_upload=_location, UnclosableBytesIO=bytes)

    async def story() -> None:
        begun = await GsClient(library, store, ThreadedPool(1, "test")).begin_upload("b/key", SIZE)
        for number, part in enumerate(parts):
            await begun.part(number, part)
        await begun.finish()

    asyncio.run(story())


PARTS = [b"a" * 10, b"b" * 10, b"c" * 10]


def test_parts_that_are_taken_whole_are_sent_once() -> None:
    store = ResumableStore(Answer(10), Answer(10))
    upload(store, PARTS)
    assert store.content == b"".join(PARTS)
    assert store.requests == ["bytes 0-9/30", "bytes 10-19/30", "bytes 20-29/30"]


@pytest.mark.parametrize("kept", [1, 9])
def test_what_a_part_lacks_is_sent_again(kept: int) -> None:
    store = ResumableStore(Answer(10), Answer(kept))
    upload(store, PARTS)
    assert store.content == b"".join(PARTS)


def test_an_answer_without_a_range_says_that_nothing_was_kept() -> None:
    store = ResumableStore(Answer(0), Answer(0), Answer(10))
    upload(store, PARTS)
    assert store.content == b"".join(PARTS)
    assert store.requests[:3] == ["bytes 0-9/30"] * 3


def test_a_last_part_of_which_nothing_was_kept_is_not_the_end() -> None:
    store = ResumableStore(Answer(0))
    upload(store, [b"".join(PARTS)])
    assert store.content == b"".join(PARTS)


def test_a_store_that_has_lost_the_beginning_fails_the_upload() -> None:
    store = ResumableStore(Answer(10), Answer(0, says_range=False))
    with pytest.raises(OSError, match="The store lost"):
        upload(store, PARTS)


def test_a_store_that_takes_nothing_is_not_asked_for_ever() -> None:
    store = ResumableStore(*[Answer(0)] * 100)
    with pytest.raises(OSError, match="accepts no bytes"):
        upload(store, PARTS)
    assert len(store.requests) == 3
