"""`tierlog.testing.Broker`: a broker for the length of a `with` statement.

It runs on an event loop in a thread of its own, so tests may block as they like, and asynchronous
tests may use it as well. Each broker has its port and its data; several do not see each other.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from ..clients.consumer.completed_fetch import ConsumerRecord
from ..clients.errors import KafkaError
from .broker_error import BrokerError
from .broker_options import broker_properties, client_config, log_dirs, topic_configs
from .cluster_access import DONE_WITHIN_S, ClusterAccess
from .data_directory import DataDirectory, read_tail
from .faults.faults import Faults
from .foreign_loops import foreign_loop_is_running, run_in_thread
from .giving_up import GivingUp
from .host_external import ExternalCluster
from .loop_thread import LoopThread
from .whole_broker import load_if_modules_are_dropped

if TYPE_CHECKING:
    from .host import Host

T = TypeVar("T")

STARTS_WITHIN_S = 90.0
"""How long a broker may take to start or to stop."""

_TOPIC_WITHIN_S = 10.0

_START = "write `with Broker() as broker:`, or call `start()`"
_NOT_STARTED = f"The broker is not started: {_START}."
_ENDED = "The thread of the broker has ended: close the broker, and start another one."
_NOT_RUNNING = f"The broker does not run: {_START}; after `kill()`, call `restart()`."


@contextmanager
def _noted_at(error: BaseException | None) -> Generator[None]:
    """Let a failure here not hide this error, which ends the `with` block: it becomes a note."""
    try:
        yield
    except Exception as failure:
        if error is None:
            raise
        error.add_note(f"Besides, the broker did not stop as it should: {failure}")


class Broker:
    """One tierlog broker on 127.0.0.1, on a free port, with its data in memory.

        with Broker() as broker:
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

        async with Broker(tier="memory") as broker:
            ...

    All methods wait until the act is done, a few milliseconds as a rule. They may come from any
    thread, and from coroutines: the broker does not need the caller's event loop. They raise
    `BrokerError`, with one message that says why.
    """

    def __init__(
        self,
        properties: Mapping[str, object] | None = None,
        *,
        tier: str | None = None,
        process: bool = False,
        directory: str | None = None,
    ) -> None:
        """Nothing is started yet.

        `properties`: of the broker, as in server.properties; they win over the small values that
        tests get. `tier`: "memory", or a URL of a store, such as s3://bucket/path; None for none.
        `process`: in a process of its own, where `kill` is SIGKILL, and where the broker does not
        share the interpreter's lock with the test. `directory`: where the data stays at the end;
        None for a temporary one.
        """
        self._stated = dict(properties or {})
        self._tier = tier
        self._is_process = process
        self._stated_directory = directory
        self._data: DataDirectory | None = None
        self._thread: LoopThread | None = None
        self._owner = -1
        """The process that has started it, whose children have copies of this object."""
        self._host: Host | None = None
        self._access: ClusterAccess | None = None
        self._is_running = False
        self._starting: asyncio.Task[Any] | None = None
        self._faults = Faults()
        self._external: ExternalCluster | None = None
        self._giving_up = GivingUp()
        self.bootstrap_servers = ""
        """The address for clients, such as 127.0.0.1:41233; the same after a restart."""

    @classmethod
    def external(cls, bootstrap_servers: str) -> Self:
        """A Kafka that runs already, for tests that are to pass there as well.

        Its topics and records are there; what only a broker of the test's own can do raises
        `OnlyTierlogError`.
        """
        broker = cls()
        broker._host = broker._external = ExternalCluster(bootstrap_servers)
        return broker

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with _noted_at(error):
            self.close()

    async def __aenter__(self) -> Self:
        if foreign_loop_is_running():
            await run_in_thread(self.start)
            return self
        thread = self._begin()
        try:
            thread.start()
            await self._wait_for(thread, self._start())
        except BaseException:
            self._abandon(thread)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        thread = self._thread
        if thread is None or self._is_elsewhere():
            return
        with _noted_at(error):
            if foreign_loop_is_running():
                await run_in_thread(self.close)
                return
            try:
                await self._wait_for(thread, self._stop())
            finally:
                self._end(thread)

    def start(self) -> None:
        """Start the broker; `with` does. Raises BrokerError."""
        thread = self._begin()
        try:
            thread.start()
            thread.run(STARTS_WITHIN_S, self._start)
        except BaseException:
            self._abandon(thread)
            raise

    def close(self) -> None:
        """Stop the broker and remove its temporary data; `with` does. Idempotent.

        In a process that was forked from the broker's, it does nothing.
        """
        thread = self._thread
        if thread is None or self._is_elsewhere():
            return
        try:
            self._stop_on(thread)
        finally:
            self._end(thread)

    def kill(self) -> None:
        """End the broker as SIGKILL does: clients are cut off, nothing more is written.

        `restart` starts it again with what is left: all that was acknowledged, and the objects of
        the tier. In this process, the data directory is put back to the moment of the kill after
        the broker has stopped. Raises BrokerError.
        """
        self._run(self._crash)

    def restart(self) -> None:
        """Stop the broker, unless it was killed, and start it on the same port and data.

        Raises BrokerError.
        """
        self._run(self._restart, timeout_s=STARTS_WITHIN_S)

    @property
    def failure(self) -> str:
        """Why the broker has given up, in a sentence; empty while it works.

        `restart` starts it again, if what has stopped it is over.
        """
        if self._thread is not None and self._thread.has_ended:
            return _ENDED
        return self._giving_up.message

    @property
    def port(self) -> int:
        """The port of the first address. Raises BrokerError before the start and after the end."""
        if not self.bootstrap_servers:
            raise BrokerError(_NOT_STARTED)
        return int(self.bootstrap_servers.split(",")[0].rpartition(":")[2])

    @property
    def directory(self) -> str:
        """Where the data is: `data`, `tier` where the tier is in memory, and `broker.log`.

        With `log.dirs` among the properties, the first of these.
        """
        own = self._own_directory
        named = log_dirs(self._stated)
        return named[0] if named else own

    @property
    def _own_directory(self) -> str:
        if self._external is not None:
            raise self._external.refusal("directory")
        if self._data is None:
            raise BrokerError("The broker has no directory before its start.")
        return self._data.path

    @property
    def is_tiered(self) -> bool:
        """Whether topics can have a remote tier."""
        return self._tier is not None

    @property
    def has_faults(self) -> bool:
        """Whether faults can be set: only a broker in the test's own process has them."""
        return self._external is None and not self._is_process

    @property
    def faults(self) -> Faults:
        """Faults for its requests and its tier. Raises BrokerError where it has none."""
        if self._external is not None:
            raise self._external.refusal("faults")
        if self._is_process:
            raise BrokerError("Broker.faults needs a broker in the test's process: process=False.")
        self._check_process()
        return self._faults

    def config(self, **settings: object) -> dict[str, Any]:
        """A configuration for confluent-kafka: `config(group_id="g")` has `group.id` as well."""
        return client_config(self.bootstrap_servers, settings)

    def log_tail(self, nbytes: int = 8192) -> str:
        """The end of the log of a broker in a process of its own; empty for one in this process.

        That one logs with the `logging` of this process, below the logger `tierlog`.
        """
        return read_tail(self._log_path, nbytes) if self._is_process else ""

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> str:
        """Create a topic; returns its name. `retention_ms=1000` sets `retention.ms`.

        With a tier, the topic is tiered unless it is compacted or `remote_storage_enable=False`.
        Raises BrokerError.
        """
        named = topic_configs(configs, is_tiered=self.is_tiered)
        self._run(self._giving_up.until, self._accessed().create_topic, name, partitions, named)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic, if there is one of that name. Raises BrokerError."""
        self._run(self._giving_up.until, self._accessed().delete_topic, name)

    def records(self, topic: str) -> list[ConsumerRecord]:
        """The committed records of a topic, in the order of partition and offset.

        At most a million. Raises BrokerError.
        """
        return self._run(self._giving_up.until, self._accessed().records, topic)

    def offload(self, topic: str) -> None:
        """Move all records of a topic to the tier: reads come from there. Raises BrokerError."""
        self._act("offload", topic)

    def copy_to_tier(self, topic: str) -> None:
        """Copy all records of a topic to the tier, now; they stay here too. Raises BrokerError."""
        self._act("copy_to_tier", topic)

    def expire_local(self, topic: str) -> None:
        """Delete here what is in the tier, now, whatever retention says. Raises BrokerError."""
        self._act("expire_local", topic)

    def apply_retention(self, topic: str | None = None) -> None:
        """Delete what `retention.*` and `local.retention.*` let go, now. Raises BrokerError.

        Without `topic`, of all topics but internal ones.
        """
        self._act("apply_retention", topic)

    def compact(self, topic: str | None = None) -> None:
        """Compact all records of a topic, or of all compacted topics, now. Raises BrokerError.

        `min.compaction.lag.ms` and `delete.retention.ms` hold as ever.
        """
        self._act("compact", topic)

    def _is_elsewhere(self) -> bool:
        """Whether this object is a copy, in a process that was forked from the broker's."""
        return self._thread is not None and self._owner != os.getpid()

    def _check_process(self) -> None:
        if self._is_elsewhere():
            raise BrokerError(
                f"This broker belongs to process {self._owner}, and process {os.getpid()} was "
                f"forked from it: let clients here use {self.bootstrap_servers}, or make another "
                "Broker in this process."
            )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A Broker cannot be sent to another process: send its bootstrap_servers, "
            "or make another Broker there."
        )

    def _begin(self) -> LoopThread:
        self._check_process()
        if self._thread is not None:
            raise BrokerError("The broker is started already.")
        if self._external is None:
            try:
                self._data = DataDirectory(self._stated_directory)
            except OSError as error:
                raise BrokerError(
                    f"The broker cannot have its data in {error.filename}: {error.strerror}."
                ) from error
        self._owner = os.getpid()
        thread = self._thread = LoopThread("tierlog-broker")
        return thread

    def _abandon(self, thread: LoopThread) -> None:
        """Undo a start that failed, or that nobody waits for any more: it may be done by now."""
        try:
            self._stop_on(thread)
        except (BrokerError, KafkaError, TimeoutError):
            # The error of the start is the one to raise.
            return
        finally:
            self._end(thread)

    def _stop_on(self, thread: LoopThread) -> None:
        # Ctrl-C may have come before the thread had begun: nothing runs then.
        if thread.has_begun and not thread.has_ended:
            thread.run(STARTS_WITHIN_S, self._stop)

    def _end(self, thread: LoopThread) -> None:
        self._thread = None
        self._host = self._external
        self._giving_up.message = ""
        self.bootstrap_servers = ""
        try:
            thread.close()
        finally:
            if self._data is not None:
                self._data.remove()

    async def _wait_for(self, thread: LoopThread, work: Coroutine[Any, Any, T]) -> T:
        async with asyncio.timeout(STARTS_WITHIN_S):
            return await asyncio.wrap_future(thread.begin(work))

    async def _start(self) -> None:
        self._starting = asyncio.current_task()
        host = self._host
        if host is None:
            host = self._host = self._new_host()
        properties: dict[str, str] = {}
        if self._external is None:
            properties = broker_properties(self._stated, self._own_directory, self._tier)
            if self.bootstrap_servers:
                properties["listeners"] = f"PLAINTEXT://{self.bootstrap_servers}"
        self.bootstrap_servers = await host.start(properties)
        # Another cluster's metadata may lag behind a topic's creation.
        wait_s = 0.0 if self._external is None else _TOPIC_WITHIN_S
        self._access = ClusterAccess(self.bootstrap_servers, wait_s)
        self._is_running = True

    def _new_host(self) -> "Host":
        # What a broker is made of is loaded when one starts.
        if self._is_process:
            from .host_process import OtherProcess

            return OtherProcess(self._log_path, self._giving_up)
        load_if_modules_are_dropped()
        from .host import ThisProcess

        return ThisProcess(self._faults, self._giving_up)

    async def _stop(self) -> None:
        starting, self._starting = self._starting, None
        if starting is not None and starting is not asyncio.current_task():
            # It was cancelled, unless it is done, and undoes what it did.
            await asyncio.wait([starting])
        self._is_running = False
        access, self._access = self._access, None
        if access is not None:
            await access.stop()
        if self._host is not None:
            await self._host.stop()

    async def _crash(self) -> None:
        if self._host is None or not self._is_running:
            raise BrokerError(_NOT_RUNNING)
        await self._host.crash()
        self._is_running = False

    @property
    def _log_path(self) -> str:
        return f"{self._own_directory}/broker.log"

    async def _restart(self) -> None:
        if self._external is not None:
            raise self._external.refusal("restart")
        await self._stop()
        await self._start()

    def _accessed(self) -> ClusterAccess:
        if self._access is None or not self._is_running:
            raise BrokerError(_NOT_RUNNING)
        return self._access

    def _act(self, name: str, topic: str | None) -> None:
        if self._host is None or not self._is_running:
            raise BrokerError(_NOT_RUNNING)
        self._run(self._giving_up.until, self._host.act, name, topic)

    def _run(
        self,
        act: Callable[..., Coroutine[Any, Any, T]],
        *args: object,
        timeout_s: float = DONE_WITHIN_S,
    ) -> T:
        if self._thread is None:
            raise BrokerError(_NOT_STARTED)
        self._check_process()
        if self._thread.has_ended:
            raise BrokerError(_ENDED)
        try:
            return self._thread.run(timeout_s, act, *args)
        except (CancelledError, RuntimeError):
            if self._thread.has_ended:
                raise BrokerError(_ENDED) from None
            raise
        except KafkaError as error:
            raise BrokerError(error.message) from error
        except TimeoutError:
            raise BrokerError(f"The broker was not done within {timeout_s:.0f} s.") from None
