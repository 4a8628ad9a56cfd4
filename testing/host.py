"""What runs a test's broker: this process or another one, with the same acts."""

import asyncio
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Protocol

from ..broker.broker import Broker, StartError
from ..broker.config.config import read_config, unknown_property_warnings
from ..broker.dependencies import Dependencies
from ..clients.errors import KafkaError
from ..tiering.blocking_pool import BlockingPool, ThreadedPool
from .broker_error import BrokerError
from .data_directory import copy_tree, replace_tree
from .faults.faults import Faults
from .giving_up import GivingUp
from .log_acts import LogActs
from .system_clock import SystemClock

ACTS = ("offload", "copy_to_tier", "expire_local", "apply_retention", "compact")
"""What `Host.act` can do; `LogActs` has a method for each."""
THREADS_END_WITHIN_S = 5.0
"""How long calls to the store of a tier may take to end when their broker has stopped."""

_TOPIC_ACTS = ("offload", "copy_to_tier", "expire_local")


class Host(Protocol):
    """Runs a broker. All methods are called on one event loop, one after the other."""

    async def start(self, properties: Mapping[str, str]) -> str:
        """Start a broker; returns its address for clients. Raises BrokerError."""
        ...

    async def stop(self) -> None:
        """Stop it cleanly. Raises BrokerError."""
        ...

    async def crash(self) -> None:
        """End it so that its data directory is as SIGKILL leaves it. Raises BrokerError."""
        ...

    async def act(self, name: str, topic: str | None) -> None:
        """Do one of `ACTS`. Raises BrokerError."""
        ...


class _ActsUnderWay:
    """The acts that wait for something of the broker: they end when it does."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()

    @contextmanager
    def one_more(self) -> Generator[None]:
        """What the present task does within is an act. Raises BrokerError if `end` ends it."""
        task = asyncio.current_task()
        assert task is not None, "Coroutines run in tasks."
        self._tasks.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if task in self._tasks:
                # The one that waits for it has given up.
                raise
            task.uncancel()
            raise BrokerError("The broker was stopped before this was done.") from None
        finally:
            self._tasks.discard(task)

    def end(self) -> None:
        """End all acts."""
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()


class ThisProcess:
    """Runs a broker on the event loop that calls."""

    def __init__(self, faults: Faults | None = None, giving_up: GivingUp | None = None) -> None:
        """`faults`: what its requests and its tier meet; `giving_up` hears of it."""
        self.broker: Broker | None = None
        self._pools: list[ThreadedPool] = []
        own = Dependencies(environment=SystemClock(), blocking_pool=self._pool)
        self._dependencies = own if faults is None else faults.in_place(own)
        self._giving_up = giving_up or GivingUp()
        self._acts = _ActsUnderWay()

    def _pool(self, threads: int) -> BlockingPool:
        pool = ThreadedPool(threads, "remote-storage")
        self._pools.append(pool)
        return pool

    async def start(self, properties: Mapping[str, str]) -> str:
        """See `Host`."""
        self._giving_up.message = ""
        try:
            config = read_config(properties)
            # An operator gets a warning. A test would go on, with another broker than it was
            # written for.
            if unknown := unknown_property_warnings(config):
                raise BrokerError(unknown[0])
            broker = Broker(config, self._dependencies)
            broker.on_fatal = self._giving_up.come
            await broker.start()
        except KafkaError as error:
            raise BrokerError(error.message) from error
        except StartError as error:
            raise BrokerError(str(error)) from error
        if broker.remote_log_manager is not None:
            # Otherwise loaded with the first copy, which may be while a test has a `datetime.date`
            # of its own: the package's code in C warns of that.
            import_module("msgpack")
        self.broker = broker
        return broker.listeners.advertised[0].address

    async def stop(self) -> None:
        """See `Host`."""
        self._acts.end()
        broker, self.broker = self.broker, None
        if broker is None:
            return
        try:
            await broker.stop()
        finally:
            # Calls to the store may be under way: nothing of this broker is at work after its end.
            pools, self._pools = self._pools, []
            for pool in pools:
                pool.join(THREADS_END_WITHIN_S)

    async def crash(self) -> None:
        """See `Host`. What a clean stop writes is written to a copy that is thrown away."""
        broker = self._running()
        # First, so that nothing is acknowledged that is not in the copy; and without acknowledged
        # events, what deletes objects of the tier does not go on.
        broker.cut_off()
        # Nothing runs meanwhile on this loop, which alone changes logs: all directories are of one
        # moment. Threads only flush, write files beside the logs, and remove what is doomed.
        copies = [(path, f"{path}.crashed") for path in broker.config.log_dirs]
        for path, copy in copies:
            copy_tree(path, copy)
        await self.stop()
        for path, copy in copies:
            replace_tree(copy, path)

    async def act(self, name: str, topic: str | None) -> None:
        """See `Host`."""
        acts = LogActs(self._running())
        with self._acts.one_more():
            await self._act(acts, name, topic)

    async def _act(self, acts: LogActs, name: str, topic: str | None) -> None:
        if name in _TOPIC_ACTS:
            if topic is None:
                raise BrokerError("Which topic is meant?")
            await _act_on_topic(acts, name, topic)
        elif name == "apply_retention":
            await acts.apply_retention(topic)
        elif name == "compact":
            await acts.compact(topic)
        else:
            raise BrokerError(f"There is no act {name!r}.")

    def _running(self) -> Broker:
        if self._giving_up.message:
            raise BrokerError(self._giving_up.message)
        if self.broker is None:
            raise BrokerError(f"The broker of process {os.getpid()} does not run: restart it.")
        return self.broker


async def _act_on_topic(acts: LogActs, name: str, topic: str) -> None:
    if name == "offload":
        await acts.offload(topic)
    elif name == "copy_to_tier":
        await acts.copy_to_tier(topic)
    else:
        acts.expire_local(topic)
