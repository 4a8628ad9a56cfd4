"""Faults of the remote store that all brokers share: an S3 server behind a proxy.

Nothing that was acknowledged may depend on the store: while it is in trouble, segments stay on the
brokers' disks, and they are copied later. A copy that was made although its answer got lost is
recognised, or made again under another name; the object of the first is removed some time later.

Only tierlog's own cluster has a tier here. Apache Kafka comes with no plug-in for S3: its
LocalTieredStorage keeps a tier in a folder.
"""

import asyncio
import random
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from ..peers.http_message import Head, body_pieces
from ..peers.s3_server import BUCKET, S3Server
from ..peers.slow_proxy import Link, SlowProxy
from ..requests.probe import free_port
from .fault import Fault, Grounds, Nodes, StoreTrouble, any_node

_KEY = "tierlog-bench"
_SLOW_MS = 2000
_SHARE = 0.5
"""How many requests fail, or lose their answers."""
_WITHIN_S = 10.0
_ERRORS = (("503 Slow Down", "SlowDown"), ("500 Internal Server Error", "InternalError"))


class TroubledProxy(SlowProxy):
    """A proxy whose trouble can be set at any time. Use as a context manager."""

    def __init__(self, store_port: int) -> None:
        super().__init__(free_port(), store_port)
        self._trouble = StoreTrouble.NONE
        self._chance = random.Random(store_port)
        self.refused = 0
        """Requests that were answered with an error, and not done."""
        self.lost_answers = 0
        """Requests that were done and not answered."""

    def behave(self, trouble: StoreTrouble) -> None:
        """Behave like this from now on."""
        asyncio.run_coroutine_threadsafe(self._behave(trouble), self._loop).result(_WITHIN_S)

    async def _behave(self, trouble: StoreTrouble) -> None:
        was_down, self._trouble = self._trouble is StoreTrouble.DOWN, trouble
        self.link = Link(latency_ms=_SLOW_MS if trouble is StoreTrouble.SLOW else 0)
        if trouble is StoreTrouble.DOWN and not was_down:
            await self._stop()
        elif was_down and trouble is not StoreTrouble.DOWN:
            self._server = await self._listen()

    def _is_drawn(self) -> bool:
        return self._chance.random() < _SHARE

    async def _refuse(
        self, request: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if self._trouble is not StoreTrouble.ERRORS or not self._is_drawn():
            return False
        if request.get("expect") != "100-continue":
            async for _ in body_pieces(reader, request, until_close=False):
                pass
        status, code = self._chance.choice(_ERRORS)
        method = request.first_line.split(" ", 1)[0]
        body = f"<Error><Code>{code}</Code><Message>Try again.</Message></Error>".encode()
        head = Head(
            f"HTTP/1.1 {status}",
            [
                ("Content-Type", "application/xml"),
                ("Content-Length", str(len(body))),
                ("Connection", "close"),
            ],
        )
        writer.write(head.encoded() + (b"" if method == "HEAD" else body))
        await writer.drain()
        self.refused += 1
        return True

    def _loses_answer(self) -> bool:
        if self._trouble is not StoreTrouble.LOST_ANSWERS or not self._is_drawn():
            return False
        self.lost_answers += 1
        return True


class TroubledStore:
    """An S3 server with an empty bucket, and the proxy by which brokers reach it."""

    def __init__(self, directory: Path) -> None:
        """Start both; the server writes its log into the directory. Raises MeasurementError."""
        with ExitStack() as started:
            server = started.enter_context(S3Server(directory))
            self.proxy = started.enter_context(TroubledProxy(server.port))
            self._started = started.pop_all()

    @property
    def properties(self) -> Mapping[str, str]:
        """What a broker's properties say so that its tier is there, by way of the proxy."""
        return {
            "remote.log.storage.system.enable": "true",
            "rsm.config.url": f"s3://{BUCKET}/cluster",
            "rsm.config.option.endpoint_url": f"http://127.0.0.1:{self.proxy.port}",
            "rsm.config.option.key": _KEY,
            "rsm.config.option.secret": _KEY,
        }

    def behave(self, trouble: StoreTrouble) -> None:
        """Behave like this from now on, towards all brokers."""
        self.proxy.behave(trouble)

    def close(self) -> None:
        """End the server and the proxy."""
        self._started.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_TURN = threading.Lock()
"""Held by the one that is in trouble with the store now."""


def _stand_in(grounds: Grounds) -> Nodes:
    """No node is hit: the one that is named stands for all."""
    return () if grounds.store is None or _TURN.locked() else any_node(grounds)


def _troubled(name: str, says: str, trouble: StoreTrouble) -> Fault:
    """The store is in trouble for some time, one kind of it at a time."""

    def act(grounds: Grounds, nodes: Nodes, lasts_s: float) -> None:
        assert grounds.store is not None, "`choose` says so before."
        with _TURN:
            grounds.store.behave(trouble)
            try:
                grounds.wait(lasts_s)
            finally:
                grounds.store.behave(StoreTrouble.NONE)

    return Fault(name, says, act, _stand_in)


STORE_FAULTS: Sequence[Fault] = (
    _troubled("store_down", "The remote store accepts no connection.", StoreTrouble.DOWN),
    _troubled(
        "store_slow", "Every request to the remote store takes 2 s longer.", StoreTrouble.SLOW
    ),
    _troubled(
        "store_errors",
        "Every second request to the remote store is answered with 500 or 503.",
        StoreTrouble.ERRORS,
    ),
    _troubled(
        "store_lost_answers",
        "Every second request to the remote store is done, and not answered: "
        "the connection closes.",
        StoreTrouble.LOST_ANSWERS,
    ),
)
