"""What faults do to the process of a node: it goes down, and an operator brings it back."""

from collections.abc import Iterable
from pathlib import Path

from ..processes.cluster import ClusterNode
from ..requests.probe import NotUpError
from .fault import Grounds

_POLL_S = 0.1
_STOP_S = 60.0
_UP_WITHIN_S = 60.0
_SHOWN_LINES = 5


class RefusedStartError(Exception):
    """A node ended right after its start, although nothing was wrong any more."""


def wait_until_ended(grounds: Grounds, node: ClusterNode, timeout_s: float) -> bool:
    """Whether the node's process ended by itself in time; False also when the run ends."""
    left = timeout_s
    while node.is_alive():
        if left <= 0 or grounds.wait(min(_POLL_S, left)):
            return not node.is_alive()
        left -= _POLL_S
    return True


def bring_down(node: ClusterNode, *, cleanly: bool) -> None:
    """End the process of a node, by SIGTERM or by SIGKILL."""
    if cleanly:
        node.stop(_STOP_S)
    else:
        node.kill()


def starts(node: ClusterNode) -> bool:
    """Start a node; False if its process has ended before it was up.

    True also if it is not up within a minute: it may be waiting for others.
    """
    node.spawn()
    try:
        node.up(_UP_WITHIN_S)
    except NotUpError:
        return node.is_alive()
    return True


def start_repaired(node: ClusterNode, suspects: Iterable[Path]) -> bool:
    """Start a node; if it refuses, remove what is damaged and start it again.

    So does an operator who reads the reason in its log. Returns whether that was needed. Raises
    RefusedStartError.
    """
    if starts(node):
        return False
    for path in suspects:
        path.unlink(missing_ok=True)
    if starts(node):
        return True
    raise RefusedStartError(
        f"Node {node.node_id} refuses to start, also without the damaged files: "
        f"{node.log_tail(_SHOWN_LINES)}"
    )
