"""Writes the texts of `tierlog completion` from the parsers: `python -m tierlog.tests.completion_text`."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import shtab

from tierlog.broker.command_line import full_parser
from tierlog.broker.commands.completion.completion import SHELLS, completion_file

_NAMES = {
    "TOPIC": shtab.cmd("tierlog topic ls --names 2>/dev/null"),
    "GROUP": shtab.cmd("tierlog group ls --names 2>/dev/null"),
    "FILE": shtab.FILE,
    "DIR": shtab.DIRECTORY,
}


def completion_text(shell: str) -> str:
    """The text for a shell, as it is now."""
    parser = full_parser()
    for each in _parsers(parser):
        for action in each._actions:  # noqa: SLF001  argparse shows its actions nowhere else
            if isinstance(action.metavar, str) and action.metavar in _NAMES:
                setattr(action, "complete", _NAMES[action.metavar])  # noqa: B010  shtab's protocol
    return shtab.complete(parser, shell)


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:  # noqa: SLF001  as above
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  as above
            for each in action.choices.values():
                yield from _parsers(each)


if __name__ == "__main__":
    for name in SHELLS:
        Path(completion_file(name)).write_text(completion_text(name))
