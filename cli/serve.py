"""`tierlog serve`: runs a broker until it is stopped.

Prints one line: either the problem with the configuration, an address or the data directory (exit
code 1, nothing is started), or, once clients can connect, the version, the addresses, the startup
time, the URL of the status page, if it is served, and the URL of the remote tier. Ctrl-C, SIGTERM
and the end of its terminal (SIGHUP) stop the broker cleanly; a second Ctrl-C or SIGTERM exits at
once. SIGUSR1 logs the stacks of all threads and tasks, and the broker goes on.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import NamedTuple

from .. import __version__
from ..broker.broker import Broker, StartError
from ..broker.config.config import BrokerConfig, config_warnings
from ..broker.config.config_safety import open_listener_warnings
from ..broker.metrics.log_lines import LineFormatter, LineHandler, LineLimit, log_loop_exception
from ..clients.errors import KafkaError
from ..clients.runtime.environment import SystemEnvironment
from ..clients.runtime.stop_signals import stop_signals
from ..clients.runtime.task_owner import TaskOwner
from ..storage.system_calls import raise_files_limit
from .configuration import DevWords, stated_configuration
from .readiness import STOPPING, announce_ready, notify
from .stacks import StackSignal

_log = logging.getLogger("tierlog")

_STOP_TIMEOUT_S = 20.0
_SAME_STOP_S = 0.2
"""Within this time a signal is no second one: `timeout` and others send one stop to the process and
to its group, which is two signals. A person takes longer."""
_GARBAGE_THRESHOLD = 50_000


class LogOptions(NamedTuple):
    """What the command line says of the log."""

    format: str
    """`text` or `json`."""
    levels: Sequence[str] = ()
    """Each `LEVEL` or `LOGGER=LEVEL`."""


def serve(
    file: str | None,
    overrides: Sequence[str],
    dev: DevWords,
    started_ms: int,
    log: LogOptions,
    announced: Sequence[str] = (),
) -> int:
    """Run a broker; returns the exit code. The process began at `started_ms`.

    `announced` are further lines to print once clients can connect.
    """
    # Before the loop runs and after it has ended, this signal would end the process.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    # The image holds these back until somebody listens, who is `__main__` now.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stop_signals())
    _log_to_stderr(log.format)
    try:
        if log.levels:
            _set_levels(log.levels)
        config = stated_configuration(file, overrides, dev)
    except KafkaError as error:
        return _give_up(error.message)
    for warning in config_warnings(config):
        _log.warning("Configuration: %s", warning)
    _allow_many_files()
    with asyncio.Runner() as runner:
        try:
            return runner.run(_run(config, started_ms, announced))
        except StartError as error:
            return _give_up(str(error))
        finally:
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def _allow_many_files() -> None:
    """Raise the limit on open files to its maximum, as a JVM does: shells set it low."""
    try:
        raise_files_limit()
    except (OSError, ValueError) as error:
        # Some systems report a limit that they do not grant.
        _log.debug("The limit on open files stays as it is: %s", error)


async def _run(config: BrokerConfig, started_ms: int, announced: Sequence[str]) -> int:
    """Start the broker, wait for the stop signal, and stop it; returns the exit code."""
    broker = Broker(config)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_loop_exception)
    stop = asyncio.Event()
    fatal: list[str] = []

    def give_up(message: str) -> None:
        fatal.append(message)
        stop.set()

    broker.on_fatal = give_up
    signal.signal(signal.SIGUSR1, StackSignal(loop, _log))
    hear_stop_signals(loop, stop)
    if not await _has_started(broker, stop):
        return _give_up(fatal[0]) if fatal else 0
    # These objects live as long as the process: collections need not scan them. A whole collection
    # would, for a tenth of a second with thousands of partitions: the young objects must do.
    gc.collect(1)
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD)
    secured = {*config.tls, *config.sasl}
    for warning in open_listener_warnings(config.values.stated, config.listeners.all, secured):
        _log.warning("Security: %s", warning)
    _say_ready(broker, started_ms)
    announce_ready(announced)
    await stop.wait()
    notify(STOPPING)
    _log.info("Stopping.")
    try:
        async with asyncio.timeout(_STOP_TIMEOUT_S):
            await broker.stop()
    except TimeoutError:
        return _give_up(f"Shutdown did not finish within {_STOP_TIMEOUT_S:.0f} seconds; exiting.")
    return _give_up(fatal[0]) if fatal else 0


async def _has_started(broker: Broker, stop: asyncio.Event) -> bool:
    """Start the broker, unless a signal comes first: a member of a cluster may wait for others."""
    tasks = TaskOwner(2, on_failure=lambda task, failure: None)
    starting = tasks.start(broker.start(), "start")
    stopping = tasks.start(stop.wait(), "stop")
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        await tasks.stop()
        starting.result()
        return True
    _log.info("Stopping before the start is complete.")
    starting.cancel()
    await asyncio.wait((starting,), timeout=_STOP_TIMEOUT_S)
    await tasks.stop()
    return False


def hear_stop_signals(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Set `stop` at the first signal that stops, and leave at a second Ctrl-C or SIGTERM."""
    numbers = stop_signals()
    heard_at = 0.0

    def leave(_number: int, _frame: FrameType | None) -> None:
        # Without the event loop: the slow stop may be blocking it.
        if loop.time() - heard_at >= _SAME_STOP_S:
            os._exit(130)

    def let_the_second_leave() -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else leave)

    def heard() -> None:
        stop.set()
        # A signal without a handler would end the process.
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        for number in numbers:
            loop.remove_signal_handler(number)
        let_the_second_leave()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal heard_at
        heard_at = loop.time()
        let_the_second_leave()
        loop.call_soon_threadsafe(heard)

    for number in numbers:
        # The loop's own handlers wake it. But they hear through its pipe, which a flood of other
        # signals fills, and what does not go into it is lost: Python's own handlers hear all.
        # SIGHUP has none: while it is removed, a second one would end the process.
        if number != signal.SIGHUP:
            loop.add_signal_handler(number, stop.set)
        signal.signal(number, on_signal)
    # Of a pipe that is full the interpreter would write to stderr.
    signal.set_wakeup_fd(signal.set_wakeup_fd(-1), warn_on_full_buffer=False)


def _say_ready(broker: Broker, started_ms: int) -> None:
    took_s = (SystemEnvironment().wall_clock_ms() - started_ms) / 1000
    listeners = broker.listeners
    addresses = ", ".join(
        endpoint.address for endpoint in listeners.advertised or listeners.advertised_controllers
    )
    remote = broker.config.remote_storage or broker.config.storage_plugin
    tier = f"remote tier {remote}" if remote else "no remote tier"
    status = f", status {broker.status_url}" if broker.status_url else ""
    ready = f"tierlog {__version__} ready on {addresses} in {took_s:.2f} s"
    # Where nobody reads it, as in a terminal that has closed, a broker can do without this line.
    with contextlib.suppress(OSError):
        print(f"{ready}{status}, {tier}", flush=True)


def _give_up(message: str) -> int:
    formatters = (handler.formatter for handler in logging.getLogger().handlers)
    ours = next(formatter for formatter in formatters if isinstance(formatter, LineFormatter))
    with contextlib.suppress(OSError):
        print(ours.problem(message), file=sys.stderr, flush=True)
    return 1


def _log_to_stderr(log_format: str) -> None:
    formatter = LineFormatter()
    if log_format == "json":
        from ..broker.metrics.json_lines import JsonFormatter

        formatter = JsonFormatter()
        logging.captureWarnings(True)
    handler = LineHandler(sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(LineLimit())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    sys.excepthook = _log_uncaught
    sys.unraisablehook = _log_unraisable


def _set_levels(stated: Sequence[str]) -> None:
    """Raises KafkaError(INVALID_CONFIG)."""
    from ..broker.metrics.loggers import apply, stated_levels

    apply(stated_levels(stated))


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    _log.critical("The broker ended with an unexpected error", exc_info=(kind, error, trace))


def _log_unraisable(failed: "sys.UnraisableHookArgs") -> None:
    trace = failed.exc_type, failed.exc_value or failed.exc_type(), failed.exc_traceback
    _log.error("An object could not be finalized: %r", failed.object, exc_info=trace)
