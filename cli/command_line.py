"""The `tierlog` command line: parses the arguments and runs the command.

`tierlog serve` runs a broker, `tierlog cluster` several of them for a developer, `tierlog tier`
inspects and repairs a remote tier, `tierlog format` prepares the directories of a cluster's node;
`tierlog topic`, `produce`, `consume`, `group` and `config` speak to any Kafka cluster.
Each command is a module of `commands/`, imported only when it runs: the tools do not slow down a
broker's start.

A command that is a name for others, such as `tierlog` itself, shows its help if none of them is
named. A word that is unknown is answered with the one that was meant, as far as that can be seen.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from .. import __version__

_WRONG_ARGUMENTS = 2

_SERVE_EPILOG = """\
Without --config this is a dev broker: 127.0.0.1:9092, data in ./data, closed segments in
./data/remote; --port and --data change that. With --config, the file configures it; the property
names are Kafka's.

  tierlog serve --port 9192 --data /tmp/second
  tierlog serve --data /var/lib/tierlog \\
      --override rsm.config.url=s3://bucket/prefix \\
      --override rsm.config.option.endpoint_url=http://localhost:9000
"""

_CLIENT_COMMANDS = {
    "topic": "list, create, describe, alter, trim and delete topics; show their storage",
    "produce": "send lines of stdin to a topic",
    "consume": "print the records of topics",
    "group": "list, describe, move and delete groups",
    "config": "get and set configs of topics, brokers and groups",
}
_OTHER_COMMANDS = {
    "tier": "inspect a remote tier, check it, clean it, or rebuild a broker from it",
    **_CLIENT_COMMANDS,
    "cluster": "look at a cluster, wait for it; run one of several processes here",
    "format": "format the log directories of a node of a cluster",
    "info": "show the cluster and node of log directories",
    "random-uuid": "print a new id, for a cluster or a directory",
    "secure": "make certificates, a user and a properties file for a secured development broker",
    "completion": "print a completion script for bash, zsh or fish",
}


def run(arguments: Sequence[str] | None, started_ms: int) -> int:
    """Run the command; returns the exit code. The process began at `started_ms`."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:2] == ["completion", "--candidates"]:
        return _complete(" ".join(words[2:]))
    # A start that names its command builds the parsers of no other.
    parser, parsers = _bare_parser({} if words[:1] == ["serve"] else _OTHER_COMMANDS)
    command = words[0] if words[:1] and words[0] in parsers else "serve"
    if command == "serve":
        return _serve(parser, parsers[command], words, started_ms)
    _add_arguments(command, parsers[command])
    if command in _CLIENT_COMMANDS:
        from .client.commands import run_client_command, with_joined_places

        return run_client_command(_parse(parser, with_joined_places(words)))
    parsed = _parse(parser, words)
    match command:
        case "tier":
            from .tier.commands import run_tier_command

            return run_tier_command(parsed)
        case "cluster":
            from .cluster import run_cluster_command

            return run_cluster_command(parsed, started_ms)
        case "secure":
            from .printed_output import printed_at_its_end
            from .secure import run_secure_command

            return printed_at_its_end(run_secure_command, parsed)
        case "completion":
            from .completion.completion import run_completion_command
            from .printed_output import printed_at_its_end

            return printed_at_its_end(run_completion_command, parsed)
        case _:
            from .format import run_storage_command
            from .printed_output import printed_at_its_end

            return printed_at_its_end(run_storage_command, parsed)


def full_parser() -> argparse.ArgumentParser:
    """The parser with the arguments of every command."""
    parser, parsers = _bare_parser(_OTHER_COMMANDS)
    for command, each in parsers.items():
        _add_arguments(command, each)
    return parser


def _bare_parser(
    others: Mapping[str, str],
) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser, and those of its commands, which have no arguments yet."""
    parser = argparse.ArgumentParser(
        prog="tierlog", description="A Kafka-wire-compatible broker with tiered storage built in."
    )
    parser.add_argument("--version", action="version", version=f"tierlog {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    parsers = {
        "serve": commands.add_parser(
            "serve",
            help="run a broker until Ctrl-C",
            description="Run a broker, and its controller, until Ctrl-C or SIGTERM.",
            epilog=_SERVE_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    }
    for name, line in others.items():
        parsers[name] = commands.add_parser(
            name, help=line, formatter_class=argparse.RawDescriptionHelpFormatter
        )
    return parser, parsers


def _add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a command to its parser."""
    match command:
        case "serve":
            from .configuration import (
                add_configuration_arguments,
                add_log_arguments,
                add_port_argument,
            )

            add_configuration_arguments(parser)
            add_port_argument(parser)
            add_log_arguments(parser)
            parser.add_argument(
                "--announce",
                metavar="LINE",
                action="append",
                default=[],
                help="a line to print once clients can connect, for a program that waits for it;"
                " can be repeated",
            )
        case "tier":
            from .tier.commands import add_tier_commands

            add_tier_commands(parser)
        case "cluster":
            from .cluster import add_cluster_commands

            add_cluster_commands(parser)
        case "secure":
            from .secure import add_secure_commands

            add_secure_commands(parser)
        case "completion":
            from .completion.completion import add_completion_arguments

            add_completion_arguments(parser)
        case _ if command in _CLIENT_COMMANDS:
            from .client.commands import add_client_command

            add_client_command(command, parser)
        case _:
            from .format import add_storage_arguments

            add_storage_arguments(command, parser)


def _complete(line: str) -> int:
    """Print what can come next on a line; returns the exit code."""
    from .completion.candidates import print_candidates, split

    words = split(line)
    parser, parsers = _bare_parser(_OTHER_COMMANDS)
    for command in words[:1]:
        if command in parsers:
            _add_arguments(command, parsers[command])
    print_candidates(parser, words)
    return 0


def _serve(
    parser: argparse.ArgumentParser,
    serve: argparse.ArgumentParser,
    words: Sequence[str],
    started_ms: int,
) -> int:
    _add_arguments("serve", serve)
    parsed = _parse(parser, words)
    from .configuration import DevWords
    from .serve import LogOptions, serve as run_broker

    return run_broker(
        parsed.config,
        parsed.override,
        DevWords(parsed.data, parsed.port),
        started_ms,
        LogOptions(parsed.log_format, parsed.log_level),
        parsed.announce,
    )


def _parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """The arguments. Raises SystemExit, after usage and reason are on stderr."""
    chosen, rest = _choose_parser(parser, words)
    if not rest and _commands(chosen):
        # Not on stdout: a script that lost its words is not to take this for a result.
        chosen.print_help(sys.stderr)
        raise SystemExit(_WRONG_ARGUMENTS)
    parsed, unknown = parser.parse_known_args(words)
    if unknown:
        chosen.error(f"unrecognized arguments: {' '.join(unknown)}{_hint(chosen, unknown[0])}")
    return parsed


def _choose_parser(
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
    from ..broker.config.config_values import is_property

    name = option.lstrip("-")
    spellings = (name, name.replace("-", "."), name.replace("_", "."))
    if "." in name:
        return name
    return next((spelling for spelling in spellings if is_property(spelling)), "")
