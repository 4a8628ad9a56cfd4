"""The commands of `tierlog cluster` that ask the cluster's process: all but `up`."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping

from ..clients.errors import KafkaError
from ..clients.runtime.absolute_path import absolute_path
from ..clients.runtime.stop_signals import INTERRUPTED, let_ctrl_c_raise
from ..storage.files import OsFiles
from ..testing.local_cluster.cluster_status import status_from_json, status_lines
from ..testing.local_cluster.control_client import NotRunningError, ask
from ..testing.local_cluster.control_messages import RefusedError, Request
from ..testing.local_cluster.control_server import SOCKET_FILE

_FAILED = 1
_NOT_THERE = 2
_HINT = " `tierlog cluster up` starts one; --dir says where it is."

_DONE = {
    "kill": "ended",
    "pause": "paused: it answers nothing until `tierlog cluster resume`",
    "resume": "goes on",
    "remove": "removed",
}


def ask_cluster(parsed: argparse.Namespace) -> int:
    """Ask, and print the answer; returns the exit code."""
    try:
        directory = absolute_path(parsed.dir)
    except KafkaError as error:
        return _give_up(error.message, _NOT_THERE)
    if not OsFiles().is_directory(directory):
        return _give_up(f"There is no directory {directory}.{_HINT}", _NOT_THERE)
    # The path of a socket must be short, and that of a directory need not be.
    os.chdir(directory)
    let_ctrl_c_raise()
    try:
        done = asyncio.run(ask(SOCKET_FILE, request_of(parsed), _progress))
        _print_done(parsed, done)
    except NotRunningError:
        return _give_up(f"No cluster runs in {directory}.{_HINT}", _NOT_THERE)
    except RefusedError as error:
        return _give_up(str(error), _FAILED)
    except KeyboardInterrupt:
        return _give_up("The cluster goes on with it.", INTERRUPTED)
    return 0


def request_of(parsed: argparse.Namespace) -> Request:
    """The request that the arguments are."""
    nodes = getattr(parsed, "nodes", [])
    return Request(
        parsed.cluster_command,
        (nodes,) if isinstance(nodes, int) else tuple(nodes),
        is_hard=getattr(parsed, "is_hard", False),
        waits=not getattr(parsed, "no_wait", False),
        rack=getattr(parsed, "rack", ""),
    )


def _print_done(parsed: argparse.Namespace, done: Mapping[str, object]) -> None:
    verb: str = parsed.cluster_command
    if verb == "status" and parsed.json:
        print(json.dumps(dict(done), indent=2))
    elif verb == "status":
        print("\n".join(status_lines(status_from_json(done))))
    elif verb == "add":
        print(f"{done.get('name')} is ready on {done.get('address')}")
    elif verb == "start":
        state = "starting" if parsed.no_wait else "ready"
        print("\n".join(f"node {node}: {state}" for node in parsed.nodes))
    elif verb == "roll":
        print("all nodes were restarted, and all replicas are in sync")
    elif verb in _DONE:
        nodes = [parsed.nodes] if isinstance(parsed.nodes, int) else parsed.nodes
        print("\n".join(f"node {node}: {_DONE[verb]}" for node in nodes))


def _progress(text: str) -> None:
    print(text, flush=True)


def _give_up(message: str, code: int) -> int:
    print(f"tierlog cluster: {message}", file=sys.stderr, flush=True)
    return code
