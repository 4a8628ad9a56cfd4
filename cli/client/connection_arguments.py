"""The arguments that every command has which speaks to a cluster, and what its exit code means."""

import argparse
from collections.abc import Iterator, Mapping

EXIT_CODES = """\
exit code: 0 done, 1 something was refused or is not there, 2 wrong arguments or nobody answers
"""


def add_verbs(
    parser: argparse.ArgumentParser, dest: str, epilog: str, verbs: Mapping[str, str]
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Add the verbs of a noun, each with its line of help; gives each one's name and parser."""
    parser.epilog = epilog
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest=dest, metavar="command", required=True)
    for name, line in verbs.items():
        yield (
            name,
            commands.add_parser(name, help=line, description=f"{line[0].upper()}{line[1:]}."),
        )


def add_connection(parser: argparse.ArgumentParser, *, as_json: str = "print JSON") -> None:
    """Add the arguments that every command has which speaks to a cluster."""
    group = parser.add_argument_group("connection and output")
    group.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        help="brokers to ask first (default: TIERLOG_BOOTSTRAP, KAFKA_BOOTSTRAP_SERVERS, the"
        " profile, 127.0.0.1:9092)",
    )
    group.add_argument(
        "--profile",
        metavar="NAME",
        help="a profile of ~/.config/tierlog/config.toml (default: TIERLOG_PROFILE)",
    )
    group.add_argument(
        "--command-config",
        metavar="FILE",
        help="a file with client properties, as Kafka's tools take it",
    )
    group.add_argument(
        "-X",
        dest="properties",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a client property under Kafka's name; can be repeated",
    )
    group.add_argument("--json", action="store_true", help=as_json)
