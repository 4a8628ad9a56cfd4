"""The commands that speak to a cluster, by their first word; a module is imported when it runs."""

import argparse
import re
from collections.abc import Sequence

_TAKE_PLACES = frozenset({"-o", "--offset", "--to"})
_FROM_THE_END = re.compile(r"-\d")


def add_client_command(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a command to its parser."""
    match name:
        case "topic":
            from .topic import add_topic_commands

            add_topic_commands(parser)
        case "produce":
            from .produce import add_produce_command

            add_produce_command(parser)
        case "consume":
            from .consume import add_consume_command

            add_consume_command(parser)
        case "group":
            from .group import add_group_commands

            add_group_commands(parser)
        case _:
            from .config import add_config_commands

            add_config_commands(parser)


def with_joined_places(words: Sequence[str]) -> list[str]:
    """The words, with `-o -5:end` as one: argparse takes a word that begins so for an option."""
    joined: list[str] = []
    for word in words:
        before = joined[-1] if joined else ""
        if before in _TAKE_PLACES and _FROM_THE_END.match(word):
            joined[-1] = f"{before}={word}" if before.startswith("--") else f"{before}{word}"
        else:
            joined.append(word)
    return joined


def run_client_command(parsed: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    match parsed.command:
        case "topic":
            from .topic import run_topic_command

            return run_topic_command(parsed)
        case "produce":
            from .produce import run_produce_command

            return run_produce_command(parsed)
        case "consume":
            from .consume import run_consume_command

            return run_consume_command(parsed)
        case "group":
            from .group import run_group_command

            return run_group_command(parsed)
        case _:
            from .config import run_config_command

            return run_config_command(parsed)
