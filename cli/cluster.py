"""`tierlog cluster`: a cluster of several processes on this machine, for developers and tests.

`up` runs the cluster in the foreground; the other commands ask its process, through a socket in the
cluster's directory, from another terminal.

Exit codes: 0 done, 1 refused or failed, 2 wrong arguments, or no cluster runs there.
"""

import argparse
from collections.abc import Callable
from typing import NamedTuple

from ..testing.local_cluster.cluster_plan import BROKERS_MAX, CONTROLLERS_MAX
from .client.connection_arguments import add_connection

DEFAULT_DIRECTORY = "./data-cluster"

_EXAMPLES = """\
examples:
  tierlog cluster up                     three brokers, until Ctrl-C; data in ./data-cluster
  tierlog cluster status                 from another terminal, as all that follow
  tierlog cluster kill 2 -9              broker 2 crashes
  tierlog cluster start 2                and is there again
  tierlog cluster pause 1                broker 1 hangs: it answers nothing
  tierlog cluster resume 1
  tierlog cluster add                    a fourth broker
  tierlog cluster remove 4               its partitions move first
  tierlog cluster roll                   restart one after the other, each when all are in sync
  tierlog cluster info -b HOST:PORT      any cluster, also one of other machines
  tierlog cluster wait -b HOST:PORT      until it answers

exit code: 0 done, 1 refused or failed, 2 wrong arguments, or no cluster runs there
"""

_UP_EXAMPLES = """\
A new directory becomes a new cluster; a directory of an earlier one starts again, at the same
ports. The replication factor is 3, or the number of brokers if there are fewer; closed segments
of topics with remote.storage.enable=true go to DIR/remote. All listen on 127.0.0.1 only.
Ctrl-C stops all cleanly, a second one at once.

examples:
  tierlog cluster up
  tierlog cluster up --brokers 5 --dir /tmp/five
  tierlog cluster up --controllers 3 --rack a,b,c
  tierlog cluster up --override num.partitions=6 --override log.retention.hours=1

exit code: 0 stopped, 1 not started or a node has failed at the start, 2 wrong arguments
"""


_CLIENT_HELP = {
    "info": "show the brokers of any cluster, with --bootstrap",
    "ping": "exit with 0 if a broker answers, with 2 if none does",
    "wait": "wait until a cluster answers and has the given number of brokers",
}
_WAIT_SECONDS = 60


class _Verb(NamedTuple):
    help: str
    nodes: str = ""
    """`+`: takes nodes, `1`: takes one; empty: none."""


_VERBS = {
    "status": _Verb("show the nodes: state, process, address, what they lead, what is in sync"),
    "kill": _Verb("end nodes: cleanly (SIGTERM), or as in a crash with -9", "+"),
    "pause": _Verb("stop the time of nodes (SIGSTOP): they hang, and their connections stay", "+"),
    "resume": _Verb("let paused nodes go on", "+"),
    "start": _Verb("start nodes that have ended, or resume paused ones", "+"),
    "add": _Verb("add a broker; partitions that exist stay where they are"),
    "remove": _Verb("move the partitions of a broker to the others, and stop it for good", "1"),
    "roll": _Verb("restart the nodes one after the other, each when all replicas are in sync"),
    "stop": _Verb("stop the cluster, as Ctrl-C in its own terminal does"),
}


def add_cluster_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands to the parser of `tierlog cluster`."""
    parser.description = "A cluster of several processes on this machine."
    parser.epilog = _EXAMPLES
    commands = parser.add_subparsers(dest="cluster_command", metavar="command", required=True)
    _add_up(commands.add_parser, "start a cluster and run it until Ctrl-C")
    _add_client_commands(commands.add_parser)
    for name, verb in _VERBS.items():
        each = commands.add_parser(
            name, help=verb.help, description=verb.help[0].upper() + verb.help[1:] + "."
        )
        _add_directory(each)
        if verb.nodes:
            each.add_argument(
                "nodes",
                metavar="NODE",
                type=node_id,
                nargs=None if verb.nodes == "1" else "+",
                help="the number of a node, or its name: 2, broker-2",
            )
        if name == "kill":
            each.add_argument("-9", dest="is_hard", action="store_true", help="SIGKILL: a crash")
        if name == "start":
            each.add_argument(
                "--no-wait", action="store_true", help="return before the nodes are ready"
            )
        if name == "status":
            each.add_argument("--json", action="store_true", help="print JSON")
        if name == "add":
            each.add_argument("--rack", metavar="RACK", default="", help="its broker.rack")


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir",
        metavar="DIR",
        default=DEFAULT_DIRECTORY,
        help=f"the cluster's directory (default: {DEFAULT_DIRECTORY})",
    )


def _add_up(add_parser: Callable[..., argparse.ArgumentParser], line: str) -> None:
    up = add_parser(
        "up",
        help=line,
        description=line[0].upper() + line[1:] + ".",
        epilog=_UP_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_directory(up)
    up.add_argument(
        "--brokers",
        metavar="N",
        type=int,
        help=f"how many brokers a new cluster has, at most {BROKERS_MAX} (default: 3)",
    )
    up.add_argument(
        "--controllers",
        metavar="N",
        type=int,
        help="how many controllers are processes of their own, at most"
        f" {CONTROLLERS_MAX} (default: 0, brokers are controllers)",
    )
    up.add_argument("--rack", metavar="A,B,…", help="racks, given to the brokers in turn")
    up.add_argument("--properties", metavar="FILE", help="a file of properties that every node has")
    up.add_argument(
        "--override",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a property that every node has; can be repeated",
    )
    # For tierlog.testing: requests come on stdin, and its end is the end of the cluster.
    up.add_argument("--supervised", action="store_true", help=argparse.SUPPRESS)
    up.add_argument("--temporary", action="store_true", help=argparse.SUPPRESS)


def _add_client_commands(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Add those that ask a cluster of any machines."""
    for name, line in _CLIENT_HELP.items():
        each = add_parser(name, help=line, description=f"{line[0].upper()}{line[1:]}.")
        if name == "wait":
            each.add_argument(
                "--timeout",
                metavar="SECONDS",
                type=float,
                default=_WAIT_SECONDS,
                help=f"how long to wait (default: {_WAIT_SECONDS})",
            )
            each.add_argument(
                "--brokers", metavar="N", type=int, default=1, help="how many (default: 1)"
            )
        add_connection(each)


def node_id(text: str) -> int:
    """The id in `2`, `broker-2` or `controller-101`. Raises ArgumentTypeError."""
    digits = text.removeprefix("broker-").removeprefix("controller-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 4):
        raise argparse.ArgumentTypeError(f"{text!r} is not a node: give its number, such as 2")
    return int(digits)


def run_cluster_command(parsed: argparse.Namespace, started_ms: int) -> int:
    """Run one of the commands; returns the exit code. The process began at `started_ms`."""
    if parsed.cluster_command == "up":
        from .cluster_up import run_cluster

        return run_cluster(parsed, started_ms)
    if parsed.cluster_command in _CLIENT_HELP:
        from .client.cluster import run_client_command

        return run_client_command(parsed)
    from .cluster_asks import ask_cluster

    return ask_cluster(parsed)
