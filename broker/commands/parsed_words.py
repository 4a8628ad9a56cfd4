"""Parses the words of a command line, and helps where they are not understood.

A command that is a name for others, such as `tierlog` itself, shows its help if none of them is
named. A word that is unknown is answered with the one that was meant, as far as that can be seen.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

WRONG_ARGUMENTS = 2


def parsed_words(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """The arguments. Raises SystemExit, after usage and reason are on stderr."""
    chosen, rest = _chosen(parser, words)
    if not rest and _commands(chosen):
        # Not on stdout: a script that lost its words is not to take this for a result.
        chosen.print_help(sys.stderr)
        raise SystemExit(WRONG_ARGUMENTS)
    parsed, unknown = parser.parse_known_args(words)
    if unknown:
        chosen.error(f"unrecognized arguments: {' '.join(unknown)}{_hint(chosen, unknown[0])}")
    return parsed


def _chosen(
    parser: argparse.ArgumentParser, words: Sequence[str]
) -> tuple[argparse.ArgumentParser, Sequence[str]]:
    """The parser of the command that is named, and the words that follow its name."""
    rest = list(words)
    while rest and rest[0] in (commands := _commands(parser)):
        parser = commands[rest.pop(0)]
    return parser, rest


def _commands(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    for action in _actions(parser):
        choices: object = action.choices
        if isinstance(choices, Mapping):
            return cast("Mapping[str, argparse.ArgumentParser]", choices)
    return {}


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    # argparse has no public list of them.
    yield from cast("list[argparse.Action]", vars(parser)["_actions"])


def _hint(parser: argparse.ArgumentParser, word: str) -> str:
    options = [option for action in _actions(parser) for option in action.option_strings]
    takes_properties = "--override" in options
    if not word.startswith("-"):
        # Kafka's start script takes the file as a plain argument.
        return "; name a file with --config" if takes_properties else ""
    name = word.partition("=")[0]
    if takes_properties and (named := _property(name)):
        return f"; set the property with --override {named}=VALUE"
    from difflib import get_close_matches

    near = get_close_matches(name, options, 1)
    return f"; did you mean {near[0]}?" if near else ""


def _property(option: str) -> str:
    """The property that an option names, as `--log-dirs` names log.dirs; empty if none."""
    from ..config.config_values import is_property

    name = option.lstrip("-")
    spellings = (name, name.replace("-", "."), name.replace("_", "."))
    if "." in name:
        return name
    return next((each for each in spellings if is_property(each)), "")
