"""Writes the texts of `tierlog completion`: `python -m tierlog.tests.completion_text`."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import shtab

from tierlog.cli.command_line import full_parser
from tierlog.cli.completion.completion import SHELLS, completion_file

_COMPLETED_BY = {
    "TOPIC": shtab.cmd("tierlog topic ls --names 2>/dev/null"),
    "GROUP": shtab.cmd("tierlog group ls --names 2>/dev/null"),
    "FILE": shtab.FILE,
    "DIR": shtab.DIRECTORY,
}


def completion_text(shell: str) -> str:
    """The text for a shell, as it is now."""
    parser = full_parser()
    for action in _actions(parser):
        if isinstance(action.metavar, str) and action.metavar in _COMPLETED_BY:
            vars(action)["complete"] = _COMPLETED_BY[action.metavar]
    return shtab.complete(parser, shell)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of a parser and of the commands in it."""
    for action in cast("list[argparse.Action]", vars(parser)["_actions"]):
        yield action
        for command in cast("dict[str, object]", vars(action).get("_name_parser_map", {})).values():
            assert isinstance(command, argparse.ArgumentParser)
            yield from _actions(command)


if __name__ == "__main__":
    for name in SHELLS:
        Path(completion_file(name)).write_text(completion_text(name))
