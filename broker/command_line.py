"""The `tierlog` command line: parses the arguments and runs the command.

`tierlog serve` runs a broker, `tierlog cluster` several of them for a developer, `tierlog tier`
inspects and repairs a remote tier, `tierlog format` prepares the directories of a cluster's node;
`tierlog topic`, `produce`, `consume`, `group` and `config` speak to any Kafka cluster.
Each command is a module of `commands/`, imported only when it runs: the tools do not slow down a
broker's start.
"""

import argparse
import sys
from collections.abc import Sequence

from .. import __version__

_SERVE_EPILOG = """\
Without --config this is a dev broker: 127.0.0.1:9092, data in ./data, closed segments in
./data/remote. With --config, the file configures it; the property names are Kafka's.

  tierlog serve --override log.dirs=/var/lib/tierlog \\
      --override rsm.config.url=s3://bucket/prefix \\
      --override rsm.config.option.endpoint_url=http://localhost:9000
"""

_CLIENT_COMMANDS = {
    "topic": "list, create, describe, alter, delete and trim topics of any cluster",
    "produce": "send lines of stdin to a topic",
    "consume": "print the records of topics",
    "group": "list, describe, move and delete groups",
    "config": "get and set configs of topics, brokers and groups",
}
_OTHER_COMMANDS = {
    **_CLIENT_COMMANDS,
    "cluster": "run a cluster of several processes on this machine, and disturb it",
    "format": "format the log directories of a node of a cluster",
    "info": "show what the log directories of a node belong to",
    "random-uuid": "print a new id, for a cluster or a directory",
}


def run(arguments: Sequence[str] | None, started_ms: int) -> int:
    """Run the command; returns the exit code. The process began at `started_ms`."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(
        prog="tierlog", description="A Kafka-wire-compatible broker with tiered storage built in."
    )
    parser.add_argument("--version", action="version", version=f"tierlog {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    serve = commands.add_parser(
        "serve",
        help="run a broker until Ctrl-C",
        description="Run a broker, and its controller, until Ctrl-C or SIGTERM.",
        epilog=_SERVE_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tier = commands.add_parser(
        "tier",
        help="inspect a remote tier, check it, clean it, or rebuild a broker from it",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # A start that names its command pays for the parsers of no other.
    others = {} if words[:1] == ["serve"] else _OTHER_COMMANDS
    parsers = {name: commands.add_parser(name, help=line) for name, line in others.items()}
    if words[:1] == ["tier"]:
        from .commands.tier import add_tier_commands, run_tier_command

        add_tier_commands(tier)
        return run_tier_command(parser.parse_args(words))
    if words[:1] == ["cluster"]:
        from .commands.cluster import add_cluster_commands, run_cluster_command

        parsers["cluster"].formatter_class = argparse.RawDescriptionHelpFormatter
        add_cluster_commands(parsers["cluster"])
        return run_cluster_command(parser.parse_args(words), started_ms)
    if words[:1] and words[0] in _CLIENT_COMMANDS:
        from .commands.client.commands import add_client_command, run_client_command

        add_client_command(words[0], parsers[words[0]])
        return run_client_command(parser.parse_args(words))
    if words[:1] and words[0] in parsers:
        from .commands.format import add_storage_arguments, run_storage_command

        add_storage_arguments(words[0], parsers[words[0]])
        return run_storage_command(parser.parse_args(words))
    from .commands.configuration import add_configuration_arguments

    add_configuration_arguments(serve)
    parsed, unknown = parser.parse_known_args(words)
    if unknown:
        # Kafka's start script takes the file as a plain argument: the error explains --config.
        serve.error(f"unrecognized arguments: {' '.join(unknown)}; name a file with --config")
    from .commands.serve import serve as run_broker

    return run_broker(parsed.config, parsed.override, started_ms, log_format=parsed.log_format)
