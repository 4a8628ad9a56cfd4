"""The `tierlog` command: `tierlog serve` runs a broker until it is told to stop.

Everything that a person gets to see is one plain line: what is wrong with the configuration or the
address or the data directory (exit code 1, nothing started), and, once clients can connect, who
serves where, how long the start took and where the remote tier is. Ctrl-C and SIGTERM stop cleanly;
a second one stops waiting for that.
"""

import argparse
import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from .. import __version__
from ..clients.environment import SystemEnvironment
from ..clients.errors import ErrorCode, KafkaError
from ..storage.files import OsFiles
from .broker import Broker, StartError
from .config import BrokerConfig, config_warnings, dev_properties, read_config
from .properties import parse_properties
from .socket_listener import local_host_name

_LOG = logging.getLogger("tierlog")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STOP_TIMEOUT_S = 20.0
_GARBAGE_THRESHOLD = 50_000

_EPILOG = """\
Without --config this is a dev broker: 127.0.0.1:9092, data in ./data, closed segments in
./data/remote. With --config it is what the file says; the names are Kafka's.

  tierlog serve --override log.dirs=/var/lib/tierlog \\
      --override rsm.config.url=s3://bucket/prefix \\
      --override rsm.config.option.endpoint_url=http://localhost:9000
"""


def run(arguments: Sequence[str] | None, started_ms: int) -> int:
    """Run the command line of a process that began at `started_ms`; the exit code."""
    parser = argparse.ArgumentParser(
        prog="tierlog", description="A Kafka-wire-compatible broker with tiered storage built in."
    )
    parser.add_argument("--version", action="version", version=f"tierlog {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    serve = commands.add_parser(
        "serve",
        help="run a broker until Ctrl-C",
        description="Run a broker, and its controller, until Ctrl-C or SIGTERM.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.add_argument("--config", metavar="FILE", help="a server.properties file")
    serve.add_argument(
        "--override",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a property that counts more than the file's; may be given several times",
    )
    parsed = parser.parse_args(arguments)
    return _serve(parsed.config, parsed.override, started_ms)


def _serve(file: str | None, overrides: Sequence[str], started_ms: int) -> int:
    _log_to_stderr()
    try:
        config = _configuration(file, overrides)
    except KafkaError as error:
        return _give_up(error.message)
    for warning in config_warnings(config):
        _LOG.warning("%s", warning)
    _allow_many_files()
    with asyncio.Runner() as runner:
        try:
            return runner.run(_run(config, started_ms))
        except StartError as error:
            return _give_up(str(error))


def _allow_many_files() -> None:
    """As many as the system lets the process have: shells begin with few, and a JVM does it too."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        # Some systems name a limit that they do not grant.
        _LOG.debug("The limit on open files stays as it is: %s", error)


def _configuration(file: str | None, overrides: Sequence[str]) -> BrokerConfig:
    """What file and overrides say together. Raises KafkaError with one plain sentence."""
    stated = dev_properties()
    if file is not None:
        try:
            content = OsFiles().read(file).decode()
        except OSError as error:
            raise _bad(f"The file {file} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise _bad(f"The file {file} is not text in UTF-8.") from error
        stated = parse_properties(content)
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals or not name.strip():
            raise _bad(f"--override {override} is not of the form name=value.")
        stated[name.strip()] = value
    return read_config(stated, local_host_name())


def _bad(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, sentence)


async def _run(config: BrokerConfig, started_ms: int) -> int:
    """Start, say so, wait to be told to stop, stop."""
    broker = Broker(config)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    fatal: list[str] = []

    def give_up(sentence: str) -> None:
        fatal.append(sentence)
        stop.set()

    broker.on_fatal = give_up
    await broker.start()
    for number in _SIGNALS:
        loop.add_signal_handler(number, _on_signal, stop)
    # What is alive now stays: it need not be looked at by every collection to come.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD)
    _say_ready(broker, started_ms)
    await stop.wait()
    _LOG.info("Stopping.")
    try:
        async with asyncio.timeout(_STOP_TIMEOUT_S):
            await broker.stop()
    except TimeoutError:
        return _give_up(f"Did not stop within {_STOP_TIMEOUT_S:.0f} seconds; leaving.")
    return _give_up(fatal[0]) if fatal else 0


def _on_signal(stop: asyncio.Event) -> None:
    stop.set()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.remove_signal_handler(number)
        signal.signal(number, _leave)


def _leave(_number: int, _frame: FrameType | None) -> None:
    """Told a second time. Not through the loop: it may be busy with just what takes so long."""
    os._exit(130)


def _say_ready(broker: Broker, started_ms: int) -> None:
    took_s = (SystemEnvironment().wall_clock_ms() - started_ms) / 1000
    addresses = ", ".join(each.address for each in broker.listeners.advertised)
    remote = broker.config.remote_storage
    tier = f"remote tier {remote}" if remote else "no remote tier"
    print(f"tierlog {__version__} ready on {addresses} in {took_s:.2f} s, {tier}", flush=True)


def _give_up(sentence: str) -> int:
    print(f"tierlog: {sentence}", file=sys.stderr, flush=True)
    return 1


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
