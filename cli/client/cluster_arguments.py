"""The arguments of `tierlog cluster info|ping|wait`."""

import argparse
from collections.abc import Callable

from .connection_arguments import add_connection

CLIENT_HELP = {
    "info": "show the brokers of any cluster, with --bootstrap",
    "ping": "exit with 0 if a broker answers, with 2 if none does",
    "wait": "wait until a cluster answers, and has as many brokers as stated",
}
_WAIT_SECONDS = 60


def add_client_commands(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands to those of `tierlog cluster`."""
    for name, line in CLIENT_HELP.items():
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
