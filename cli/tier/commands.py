"""`tierlog tier`: commands that inspect and repair a remote tier.

They work on the bucket in the broker's own configuration. Credentials come from there too, and
never from arguments: a command line is visible in the shell's history and in the process table.

Exit codes: 0 sound, 1 trouble found, 2 cannot run, 130 interrupted.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from typing import NamedTuple

from ...broker.config.config import BrokerConfig
from ...clients.errors import ErrorCode, KafkaError
from ...clients.network.first_contact import ensure_answers
from ...clients.runtime.environment import SystemEnvironment
from ...clients.runtime.stop_signals import INTERRUPTED, let_ctrl_c_raise
from ...storage.directory.log_dir import LogDirError
from ...tiering.remote_storage import RemoteStorageError
from ...tiering.tools.terminal import CANNOT_RUN, Output, OutputError, cannot_run
from ..configuration import DevWords, add_configuration_arguments, stated_configuration
from .ls import LS_HELP, add_ls_arguments, list_tier
from .owner import OWNER_HELP, add_owner_arguments, show_owner
from .rebuild import REBUILD_HELP, add_rebuild_arguments, rebuild_from_tier
from .scrub import SCRUB_HELP, add_scrub_arguments, scrub_tier
from .verify import (
    REPAIR_HELP,
    VERIFY_HELP,
    add_repair_arguments,
    add_verify_arguments,
    repair_tier,
    verify_tier,
)

Run = Callable[[BrokerConfig, argparse.Namespace, Output], Coroutine[None, None, int]]


class _Command(NamedTuple):
    help: tuple[str, str]
    """One line, and examples."""
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Run


_COMMANDS = {
    "ls": _Command(LS_HELP, add_ls_arguments, list_tier),
    "verify": _Command(VERIFY_HELP, add_verify_arguments, verify_tier),
    "repair": _Command(REPAIR_HELP, add_repair_arguments, repair_tier),
    "scrub": _Command(SCRUB_HELP, add_scrub_arguments, scrub_tier),
    "owner": _Command(OWNER_HELP, add_owner_arguments, show_owner),
    "rebuild": _Command(REBUILD_HELP, add_rebuild_arguments, rebuild_from_tier),
}


def add_tier_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands to the parser of `tierlog tier`."""
    commands = parser.add_subparsers(dest="tier_command", metavar="command", required=True)
    for name, command in _COMMANDS.items():
        line, examples = command.help
        each = commands.add_parser(
            name,
            help=line,
            description=line[0].upper() + line[1:] + ".",
            epilog=f"examples:\n{examples}\nexit code: 0 sound, 1 trouble found, 2 cannot run",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add_configuration_arguments(each)
        each.add_argument("--json", action="store_true", help="print JSON")
        command.add_arguments(each)


def _reader_closed() -> int:
    """End quietly if the reader closes the pipe, as `head` does."""
    # At exit the interpreter flushes stdout. Redirect it to a pipe whose read end stays open, so
    # that this write succeeds although nobody reads it.
    _, unread = os.pipe()
    os.dup2(unread, sys.stdout.fileno())
    return CANNOT_RUN


async def _run(command: _Command, config: BrokerConfig, parsed: argparse.Namespace) -> int:
    bootstrap = getattr(parsed, "bootstrap", None)
    if bootstrap:
        # Checked before the tier is read, which may take long.
        try:
            await ensure_answers(bootstrap, SystemEnvironment())
        except KafkaError as error:
            if error.code is not ErrorCode.NETWORK_EXCEPTION:
                raise
            remedy = "For a stopped broker, --offline reads the disk"
            raise KafkaError(error.code, f"{error.message}. {remedy}.") from error
    return await command.run(config, parsed, Output(as_json=parsed.json))


def run_tier_command(parsed: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    command = _COMMANDS[parsed.tier_command]
    # The bar of the progress has hidden the terminal's cursor.
    let_ctrl_c_raise()
    try:
        config = stated_configuration(parsed.config, parsed.override, DevWords(parsed.data))
        return asyncio.run(_run(command, config, parsed))
    except KafkaError as error:
        return cannot_run(error.message)
    except (RemoteStorageError, LogDirError) as error:
        return cannot_run(f"{error}".rstrip(".") + ".")
    except OutputError as error:
        return cannot_run(str(error))
    except BrokenPipeError:
        return _reader_closed()
    except OSError as error:
        return cannot_run(f"{error.filename or 'A file'} cannot be used: {error.strerror}.")
    except KeyboardInterrupt:
        return INTERRUPTED
