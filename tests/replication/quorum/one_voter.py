"""A quorum of one voter, for tests: nobody to talk to, and fsyncs that end when they are let go."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import MappingProxyType
from typing import ParamSpec, TypeVar

from tierlog.replication.metadata.raft_storage import RaftStorage
from tierlog.replication.raft.raft_actions import Destination
from tierlog.replication.raft.raft_messages import RaftRequest, RaftResponse
from tierlog.replication.raft.voter_set import KRaftVersionRange

P = ParamSpec("P")
T = TypeVar("T")


class NoTransport:
    """Nobody answers."""

    refusals: Mapping[str, str] = MappingProxyType({})

    async def request(self, destination: Destination, request: RaftRequest) -> RaftResponse:
        raise AssertionError("a sole voter sends nothing")

    async def kraft_versions(self, destination: Destination) -> KRaftVersionRange:
        raise AssertionError("a sole voter asks nobody")

    async def close(self) -> None:
        pass


class HeldExecutor(ThreadPoolExecutor):
    """Its fsyncs begin, and end when they are let go."""

    def __init__(self) -> None:
        super().__init__(1)
        self.began = threading.Event()
        self.may_end = threading.Event()
        self.may_end.set()
        self.fsyncs = 0

    def hold(self) -> None:
        self.may_end.clear()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        def held() -> T:
            if fn.__name__ == RaftStorage.run_flush.__name__:
                self.fsyncs += 1
                self.began.set()
                assert self.may_end.wait(30)
            return fn(*args, **kwargs)

        return super().submit(held)
