"""`tierlog completion --candidates LINE`: what can come next on a line of `tierlog`.

The functions beside this file ask it when the user presses the key. The first line of the answer
is `words`, `files` or `directories`. Each further line is one candidate, and its help after a tab.
"""

import argparse
import io
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

_CONNECTION = ("-b", "--bootstrap", "--profile", "--command-config", "-X")
_PATHS = {"FILE": "files", "DIR": "directories"}
_NAMES = {"TOPIC": "topic", "GROUP": "group"}
_ATTACHED = ("-b", "-X")
"""Options whose value may follow without a space."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the last word stands: in a command, as the value of one of its arguments or none."""

    options: Mapping[str, argparse.Action]
    option: argparse.Action | None
    """The option whose value it is."""
    argument: argparse.Action | None
    """The argument without a name that it can be."""


def split(line: str) -> list[str]:
    """The words after `tierlog` on a line that ends where the cursor is.

    The last one is unfinished, and perhaps empty. Empty if the line cannot be read.
    """
    for open_quote in ("", '"', "'"):
        # A letter at the end shows whether the last word has begun.
        with suppress(ValueError):
            *words, last = shlex.split(f"{line}x{open_quote}")
            return [*words, last[:-1]][1:]
    return []


def print_candidates(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Print what can stand for the last of the words; the parser knows the first one's command."""
    place = _place(parser, words[:-1]) if words else None
    if place is None:
        print("words")
        return
    option, equals, _ = words[-1].partition("=")
    argument, prefix = place.option or place.argument, ""
    if place.option is None and equals and option in place.options:
        argument, prefix = place.options[option], f"{option}="
    elif place.option is None and (words[-1].startswith("-") or argument is None):
        print("words", *_options(place.options), sep="\n")
        return
    assert argument is not None
    if argument.metavar in _PATHS:
        print(_PATHS[str(argument.metavar)])
        return
    print("words", *(f"{prefix}{each}" for each in _values(argument, words)), sep="\n")


def _place(parser: argparse.ArgumentParser, before: Sequence[str]) -> _Place | None:
    """Where a word stands after these; None if there is no such command."""
    # argparse has no public list of them.
    actions = cast("list[argparse.Action]", vars(parser)["_actions"])
    options = {name: each for each in actions for name in each.option_strings}
    arguments = [each for each in actions if not each.option_strings]
    option: argparse.Action | None = None
    for index, word in enumerate(before):
        if option is not None:
            option = None
        elif word.startswith("-"):
            named = options.get(word)
            option = named if named is not None and named.nargs != 0 else None
        elif arguments and isinstance(choices := cast("object", arguments[0].choices), Mapping):
            command = cast("Mapping[str, argparse.ArgumentParser]", choices).get(word)
            return None if command is None else _place(command, before[index + 1 :])
        elif arguments and arguments[0].nargs != "+":
            del arguments[0]
    return _Place(options, option, arguments[0] if arguments else None)


def _options(options: Mapping[str, argparse.Action]) -> Iterator[str]:
    for name, option in options.items():
        if option.help != argparse.SUPPRESS:
            yield f"{name}\t{option.help or ''}"


def _values(argument: argparse.Action, words: Sequence[str]) -> Iterator[str]:
    """What an argument takes; commands with their help."""
    if isinstance(argument.choices, Mapping):
        for command in cast("list[argparse.Action]", vars(argument)["_choices_actions"]):
            yield f"{command.dest}\t{command.help or ''}"
    elif argument.choices is not None:
        yield from map(str, argument.choices)
    elif argument.metavar in _NAMES:
        yield from _names(_NAMES[str(argument.metavar)], words)


def _names(noun: str, words: Sequence[str]) -> list[str]:
    """The names of all topics or groups of the cluster that the words or the environment name."""
    from ..client.commands import add_client_command, run_client_command

    parser = argparse.ArgumentParser()
    add_client_command(noun, parser)
    connection: list[str] = []
    for word, following in pairwise(words):
        option, equals, _ = word.partition("=")
        if option in _CONNECTION:
            connection += [word] if equals else [word, following]
        elif word.startswith(_ATTACHED):
            connection.append(word)
    listing = ["ls", "--names", *connection]
    with redirect_stdout(io.StringIO()) as names:
        run_client_command(parser.parse_args(listing, argparse.Namespace(command=noun)))
    return names.getvalue().splitlines()
