"""What the commands that speak to a cluster share: arguments, connection, output, exit codes.

Exit codes: 0 done; 1 something was refused or is not there; 2 wrong arguments, or nobody answers;
130 interrupted. Results go to stdout, each error is one line on stderr.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ...clients.admin import Admin
from ...clients.errors import ErrorCode, KafkaError
from ...clients.network.first_contact import ensure_answers
from ...clients.network.network import NetworkConfig, parse_bootstrap
from ...clients.properties import parse_properties
from ...clients.runtime.environment import SystemEnvironment
from ...clients.runtime.stop_signals import stop_signals
from ...clients.text_table import table
from ...storage.files import OsFiles
from .address import Stated, Target, UsageError, config_file, target_of
from .client_properties import ClientProperties
from .sendable import refuse_unsendable

T = TypeVar("T")

DONE = 0
REFUSED = 1
WRONG_ARGUMENTS = 2
INTERRUPTED = 130

_NOBODY_ANSWERS = frozenset((ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT))


class Session:
    """One run of a command: the cluster that it speaks to, and its output."""

    def __init__(self, target: Target, *, as_json: bool) -> None:
        self.bootstrap = target.bootstrap
        self.properties = ClientProperties(target.properties)
        self.as_json = as_json
        self.is_refused = False

    def network(self, client_id: str) -> NetworkConfig:
        """The connection settings of a client."""
        return self.properties.network(client_id)

    def admin(self) -> Admin:
        """A new admin client."""
        return Admin(
            self.bootstrap,
            timeout_ms=self.properties.number("default.api.timeout.ms", 30_000),
            network=self.network("tierlog-admin"),
        )

    async def ensure_answers(self) -> None:
        """Raise `KafkaError(NETWORK_EXCEPTION)` at once unless a broker answers."""
        network = self.network("tierlog-tool")
        await ensure_answers(
            self.bootstrap,
            SystemEnvironment(),
            tries_seconds=0,
            answer_ms=network.socket_connection_setup_timeout_ms,
            security=network.security,
        )

    def line(self, text: str) -> None:
        """Print a line for people; machines get `result` instead."""
        if not self.as_json:
            print(_printable(text))

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table for people."""
        if not self.as_json and rows:
            print("\n".join(table(head, [[_printable(cell) for cell in row] for row in rows])))

    def result(self, content: object) -> None:
        """Print the whole result, for machines; nothing if every item was refused."""
        if self.as_json and not (self.is_refused and not content):
            print(json.dumps(content, indent=2, ensure_ascii=False))

    def refuse(self, message: str) -> None:
        """Say on stderr that one item was refused; the command goes on, and will exit with 1."""
        self.is_refused = True
        print_error(message)

    async def each(self, names: Sequence[str], act: Callable[[str], Awaitable[T]]) -> list[T]:
        """Do something with each item; an item that a broker refuses does not stop the others."""
        done: list[T] = []
        for name in names:
            try:
                done.append(await act(name))
            except KafkaError as error:
                if error.code in _NOBODY_ANSWERS:
                    raise
                self.refuse(error.message)
        return done


Command = Callable[[argparse.Namespace, Session], Awaitable[None]]


def run_command(command: Command, parsed: argparse.Namespace, *, asks_first: bool = True) -> int:
    """Run a command; returns the exit code. `asks_first`: fail at once if nobody answers."""
    try:
        if sys.stdout is None:
            raise UsageError("The standard output is closed: send it to /dev/null instead.")
        refuse_unsendable(parsed)
        session = Session(_target(parsed), as_json=parsed.json)
        return asyncio.run(_until_done(command, parsed, session, asks_first=asks_first))
    except UsageError as error:
        return _give_up(str(error), WRONG_ARGUMENTS)
    except KafkaError as error:
        code = WRONG_ARGUMENTS if error.code in _NOBODY_ANSWERS else REFUSED
        return _give_up(error.message, code)
    except BrokenPipeError:
        # The reader of the pipe has gone, as `head` does: end quietly.
        _leave_output()
        return DONE
    except OSError as error:
        # What connections cannot do is a KafkaError.
        _leave_output()
        return _give_up(f"The output cannot be written: {error.strerror or error}", REFUSED)


def print_error(message: str) -> None:
    """Print an error, in one line."""
    words = _printable(" ".join(message.split()).rstrip("."))
    if sys.stderr is None:
        # Without a file, `print` takes stdout.
        return
    print(f"tierlog: {words}.", file=sys.stderr, flush=True)


def _printable(text: str) -> str:
    """The text, with escapes for what acts on a terminal: others choose names of groups."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def print_note(message: str) -> None:
    """Print a progress note at a terminal; programs that read stderr get none."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(message, file=sys.stderr, flush=True)


def _target(parsed: argparse.Namespace) -> Target:
    try:
        content: bytes | None = OsFiles().read(config_file(os.environ))
    except OSError:
        content = None
    file = _properties_of(parsed.command_config) if parsed.command_config else {}
    stated = Stated(parsed.bootstrap, parsed.profile, parsed.properties, file)
    target = target_of(stated, os.environ, content)
    try:
        parse_bootstrap(target.bootstrap)
    except KafkaError as error:
        raise UsageError(error.message) from error
    return target


def _properties_of(path: str) -> dict[str, str]:
    try:
        return parse_properties(OsFiles().read(path).decode())
    except OSError as error:
        raise UsageError(f"The file {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"The file {path} is not UTF-8 text: save it as UTF-8.") from None
    except KafkaError as error:
        raise UsageError(f"{path}: {error.message}") from None


async def _until_done(
    command: Command, parsed: argparse.Namespace, session: Session, *, asks_first: bool
) -> int:
    """Run the command until it is done, or until a signal cancels it."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def on_signal(number: int) -> None:
        # A terminal that closes may say so twice: what ends in order is not to be cut short.
        if number != signal.SIGHUP or not task.cancelling():
            task.cancel()

    for number in stop_signals():
        loop.add_signal_handler(number, on_signal, number)
    try:
        if asks_first:
            await session.ensure_answers()
        await command(parsed, session)
        sys.stdout.flush()
    except asyncio.CancelledError:
        sys.stdout.flush()
        return INTERRUPTED
    return REFUSED if session.is_refused else DONE


def _give_up(message: str, code: int) -> int:
    print_error(message)
    return code


def _leave_output() -> None:
    """Let what is flushed at exit go into a pipe that nobody reads: it could not be written."""
    _, unread = os.pipe()
    os.dup2(unread, sys.stdout.fileno())
