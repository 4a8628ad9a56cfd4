"""An object store in virtual time, seen through fsspec (`simulated://<name>`), that fails as told.

The store outlives the brokers that use it. Each request may meet what its `weather` holds; which of
it, the seed decides. A request takes time. Whoever gave up waiting for one (a cancelled task, a
process that was killed) does not know what became of it: threads and networks do not take back what
is on its way. Two faults are crueller than errors: TOO_LATE is done and answered with a time-out,
LATER is answered with a time-out and done after that, perhaps when nobody expects it any more.

`SimulatedPool` stands where a broker has its threads, and gives the time.
"""

import asyncio
import errno
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, auto
from importlib import import_module
from typing import Protocol, Self, TypeVar, cast

from tierlog.tests.simulation.disk import PowerLoss
from tierlog.tests.simulation.environment import EPOCH_MS
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import is_alive

T = TypeVar("T")
PROTOCOL = "simulated"


class Fault(Enum):
    """What a request may meet."""

    NONE = auto()
    UNREACHABLE = auto()
    THROTTLED = auto()
    DENIED = auto()
    BROKEN = auto()
    TOO_LATE = auto()
    LATER = auto()
    TRUNCATED = auto()
    """A read brings fewer bytes than were asked for."""
    DEADLY = auto()
    """The process that asks is killed at this very request, which may still be done."""


@dataclass(slots=True)
class Weather:
    """What requests meet for a while, one drawn at a time, and how long they take."""

    faults: tuple[Fault, ...] = (Fault.NONE,)
    seconds_max: float = 0.05


class StoredObject:
    """Bytes, and when they were stored."""

    __slots__ = ("content", "modified_s")

    def __init__(self, content: bytes, modified_s: float) -> None:
        self.content = content
        self.modified_s = modified_s


def _ignore(_: str) -> None:
    """Nobody listens."""


@dataclass(eq=False)
class SimulatedStore:
    """The objects of one store, by key. Make it before a broker names its URL."""

    loop: SimulatedLoop
    name: str
    is_strict: bool = False
    """Whether removing what is not there is an error, as on HDFS, or nothing, as on S3."""
    objects: dict[str, StoredObject] = field(default_factory=dict[str, StoredObject])
    weather: Weather = field(default_factory=Weather)
    on_removal: Callable[[str], None] = _ignore
    """Told of each object as it goes."""
    on_put: Callable[[str], None] = _ignore
    """Told of each object as it comes."""
    kill: Callable[[], None] | None = None
    """Kills the process that asks, for DEADLY."""
    requests: int = 0
    journal: list[tuple[float, str, str]] = field(default_factory=list[tuple[float, str, str]])
    """When, what, and of which key."""

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.loop.seed}/store/{self.name}")
        _STORES[self.name] = self

    @property
    def url(self) -> str:
        return f"{PROTOCOL}://{self.name}"

    def put(self, key: str, content: bytes) -> None:
        """Store an object."""
        self._record_event("put", key)
        self.objects[key] = StoredObject(content, self.loop.time())
        self.on_put(key)

    def remove(self, key: str) -> None:
        """Remove an object; FileNotFoundError where there is none and the store is strict."""
        if key not in self.objects:
            if self.is_strict:
                raise FileNotFoundError(errno.ENOENT, "No such object", key)
            return
        self._record_event("remove", key)
        self.on_removal(key)
        del self.objects[key]

    def get(self, key: str) -> bytes:
        """An object's bytes; FileNotFoundError."""
        if key not in self.objects:
            raise FileNotFoundError(errno.ENOENT, "No such object", key)
        return self.objects[key].content

    def request(self, what: str, key: str, work: Callable[[], T]) -> T:
        """Do what is asked, unless the weather is against it."""
        self.requests += 1
        fault = self.random.choice(self.weather.faults)
        if fault is Fault.NONE or (fault is Fault.TRUNCATED and what != "read"):
            return work()
        self._record_event(f"{what} {fault.name}", key)
        if fault is Fault.TRUNCATED:
            found = work()
            if isinstance(found, bytes):
                found = cast("T", found[: self.random.randrange(len(found))] if found else found)
            return found
        if fault is Fault.DEADLY:
            if self.random.random() < 0.5:
                work()
            self._die()
            return work()
        if fault is Fault.TOO_LATE:
            work()
        elif fault is Fault.LATER and what != "read":
            self.loop.call_later(self.random.uniform(0.1, 20), _quietly(work))
        raise _error(fault)

    def _die(self) -> None:
        if self.kill is not None:
            self.kill()
            raise PowerLoss("killed at a request to the store")

    def _record_event(self, what: str, key: str) -> None:
        self.journal.append((self.loop.time(), what, key))


def _quietly(work: Callable[[], object]) -> Callable[[], None]:
    def late() -> None:
        try:
            work()
        except (FileNotFoundError, PowerLoss):
            # It has gone meanwhile, or so has the process whose file was to be read.
            return

    return late


def _error(fault: Fault) -> Exception:
    if fault is Fault.UNREACHABLE:
        return ConnectionRefusedError(errno.ECONNREFUSED, "The simulated store is down")
    if fault is Fault.THROTTLED:
        return OSError(errno.EBUSY, "Please reduce your request rate")
    if fault is Fault.DENIED:
        return PermissionError(errno.EACCES, "Access denied")
    if fault is Fault.BROKEN:
        return RuntimeError("Internal error of the simulated store")
    return TimeoutError("The simulated store did not answer")


_STORES: dict[str, SimulatedStore] = {}


class SimulatedStream:
    """An object on its way into the store: there is nothing of it before it is closed."""

    def __init__(self, store: SimulatedStore, key: str) -> None:
        self._store = store
        self._key = key
        self._content = bytearray()

    def write(self, data: bytes, /) -> int:
        self._content += data
        return len(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            content = bytes(self._content)
            self._store.request("write", self._key, lambda: self._store.put(self._key, content))


class SimulatedFileSystem:
    """A store as fsspec sees it; synchronous, without folders."""

    async_impl = False
    protocol = PROTOCOL
    cachable = False

    def __init__(self, **_: object) -> None:
        """Options of a real file system mean nothing here."""

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix(f"{PROTOCOL}://").rstrip("/")

    @classmethod
    def _get_kwargs_from_urls(cls, _: str) -> dict[str, object]:
        return {}

    def _locate(self, path: str) -> tuple[SimulatedStore, str]:
        name, _, key = self._strip_protocol(path).partition("/")
        return _STORES[name], key

    def open(self, path: str, mode: str = "rb", block_size: int = 0) -> SimulatedStream:
        assert mode == "wb", "Reads are of ranges."
        return SimulatedStream(*self._locate(path))

    def pipe_file(self, path: str, value: bytes, **_: object) -> None:
        store, key = self._locate(path)
        content = bytes(value)
        store.request("write", key, lambda: store.put(key, content))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        store, key = self._locate(path)
        return store.request("read", key, lambda: store.get(key)[start:end])

    def rm_file(self, path: str) -> None:
        store, key = self._locate(path)
        store.request("remove", key, lambda: store.remove(key))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """There are no folders."""

    def rmdir(self, path: str) -> None:
        """There are no folders."""

    def ls(self, path: str, detail: bool = True) -> list[dict[str, object]]:
        """All objects below a path: where there are no folders, none hides any."""
        assert detail
        store, prefix = self._locate(path)

        def listed() -> list[dict[str, object]]:
            return [
                {
                    "name": f"{store.name}/{key}",
                    "size": len(each.content),
                    "type": "file",
                    "LastModified": self._modified(each),
                }
                for key, each in sorted(store.objects.items())
                if not prefix or key == prefix or key.startswith(f"{prefix}/")
            ]

        return store.request("list", prefix, listed)

    @staticmethod
    def _modified(stored: StoredObject) -> object:
        return datetime.fromtimestamp(EPOCH_MS / 1000 + stored.modified_s, UTC)


class _Register(Protocol):
    def __call__(self, name: str, cls: type, clobber: bool = False) -> None: ...


def register() -> None:
    """Let fsspec know of `simulated://`."""
    fsspec = import_module("fsspec")
    cast("_Register", fsspec.register_implementation)(PROTOCOL, SimulatedFileSystem, clobber=True)


class SimulatedPool:
    """`BlockingPool`: calls take as long as the store's weather has it.

    As in a thread, a call that has begun goes on when nobody waits for it any more. Of a process
    that was killed, a request may still be on its way; nothing new begins.
    """

    def __init__(self, store: SimulatedStore, threads: int) -> None:
        self._store = store
        self._free = asyncio.Semaphore(threads)

    async def run(self, call: Callable[[], T]) -> T:
        _require_life()
        loop = asyncio.get_running_loop()
        async with self._free:
            _require_life()
            future: asyncio.Future[T] = loop.create_future()
            chance = self._store.random
            delay_s = chance.uniform(0, self._store.weather.seconds_max)
            loop.call_later(delay_s, _work, call, future, chance.random() < 0.5)
            return await future

    def resize(self, threads: int) -> None:
        self._free = asyncio.Semaphore(threads)

    def stop(self) -> None:
        """Nothing is kept."""


def _require_life() -> None:
    if not is_alive():
        raise PowerLoss("the process is gone")


def _work(call: Callable[[], T], future: "asyncio.Future[T]", is_sent: bool) -> None:
    if not (is_alive() or is_sent):
        return
    try:
        found = call()
    except PowerLoss:
        return
    except Exception as error:
        if not future.done():
            future.set_exception(error)
    else:
        if not future.done():
            future.set_result(found)
