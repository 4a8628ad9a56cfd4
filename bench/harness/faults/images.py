"""Faults of a whole data directory: an old copy is put back, it is empty, or two are swapped.

A replica that forgets what it has acknowledged breaks its promise, in Kafka as here. That loses
nothing as long as the others in sync have it all, and as the node is not elected before it has
caught up: a new process is admitted when the session of its last one has ended, and then it is in
no ISR. Its log is cut off where its epochs differ from the leader's.

The same holds for a controller in the same process, with one condition more. It may have voted
since, and may vote again in an epoch in which it has voted. So the copy is put back only when the
other nodes have a leader without it, and have committed something in that leader's epoch: all older
epochs are decided then, and everything that was committed is on a majority of the others. What
cannot be survived, by Kafka neither, is an old copy on a node whose vote counts at that moment: one
of two voters that are left, or a second node with an old copy before the first has caught up.
"""

import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from ..processes.cluster import ClusterNode
from ..processes.live_files import live_paths, size_of
from .fault import Fault, Grounds, Nodes, any_two, to_one
from .process import RefusedStartError, bring_down, start_repaired, wait_until_ended

_IMAGE_BYTES_MAX = 1 << 30
_SETTLED_WITHIN_S = 60.0
_CALM_WITHIN_S = 120.0
_POLL_S = 0.25
_REFUSES_WITHIN_S = 60.0
_CLEANLY = 0.5
"""How often a node whose directory is copied is stopped by SIGTERM."""


class NotSettledError(Exception):
    """The other nodes did not go on without the one that is down."""


class StartedOnForeignDiskError(Exception):
    """A node has started on the directory of another."""


def wait_until_settled(grounds: Grounds, without: int) -> bool:
    """Wait until the others have a leader that commits, without this node; False if the run ends.

    Raises NotSettledError.
    """
    before, left = (-1, -1), _SETTLED_WITHIN_S
    while True:
        lead = grounds.cluster.leader()
        described = None if lead is None else grounds.cluster.nodes[lead.node_id].quorum()
        if described is not None:
            # The leader appends something every half a second, also when nothing changes.
            now = (described.leader_epoch, described.high_watermark)
            if before[0] == now[0] and 0 <= before[1] < now[1]:
                return True
            before = now
        if left <= 0:
            raise NotSettledError(f"The others have no leader while node {without} is down.")
        if grounds.wait(_POLL_S):
            return False
        left -= _POLL_S


def _wait_until_calm(grounds: Grounds) -> bool:
    """Whether all replicas were in sync in time, while only this fault is under way."""
    left = _CALM_WITHIN_S
    while not grounds.calm():
        if left <= 0 or grounds.wait(_POLL_S):
            return False
        left -= _POLL_S
    return True


def _small_node(grounds: Grounds) -> Nodes:
    """A node that runs, and whose directory is small enough to be copied."""
    for node in grounds.free():
        logs = grounds.cluster.nodes[node].log_directory
        if size_of(live_paths(logs, "**/*")) <= _IMAGE_BYTES_MAX:
            return (node,)
    return ()


@to_one
def _put_image_back(grounds: Grounds, node: ClusterNode, lasts_s: float) -> None:
    """Raises NotSettledError, RefusedStartError."""
    image = node.directory / "image"
    shutil.rmtree(image, ignore_errors=True)
    # Taken while the node is down, since a copy of a directory in use may be of many moments.
    bring_down(node, cleanly=grounds.chance.random() < _CLEANLY)
    try:
        shutil.copytree(node.log_directory, image)
    finally:
        start_repaired(node, ())
    grounds.wait(lasts_s)
    try:
        if _wait_until_calm(grounds):
            with _down(node):
                if wait_until_settled(grounds, without=node.node_id):
                    shutil.rmtree(node.log_directory)
                    image.rename(node.log_directory)
    finally:
        shutil.rmtree(image, ignore_errors=True)


@to_one
def _replace_disk(grounds: Grounds, node: ClusterNode, lasts_s: float) -> None:
    """Raises NotSettledError, RefusedStartError."""
    with _down(node):  # it formats what is empty
        if wait_until_settled(grounds, without=node.node_id):
            shutil.rmtree(node.log_directory)
            grounds.wait(lasts_s)


@contextmanager
def _down(node: ClusterNode) -> Generator[None]:
    """Kill a node, and start it at the end. Raises RefusedStartError."""
    bring_down(node, cleanly=False)
    try:
        yield
    finally:
        start_repaired(node, ())


def _swap_directories(grounds: Grounds, nodes: Nodes, lasts_s: float) -> None:
    """Raises StartedOnForeignDiskError, RefusedStartError."""
    one, other = (grounds.cluster.nodes[each] for each in nodes)
    bring_down(one, cleanly=True)
    bring_down(other, cleanly=False)  # without a majority, a clean stop may take long
    _swap(one, other)
    try:
        for node in (one, other):
            node.spawn()
        refused = [wait_until_ended(grounds, node, _REFUSES_WITHIN_S) for node in (one, other)]
        for node in (one, other):
            node.kill()
    finally:
        _swap(one, other)
        for node in (one, other):
            node.spawn()
    if not all(refused) and not grounds.wait(0):
        raise StartedOnForeignDiskError(f"Nodes {nodes} started with each other's directories.")
    if any(wait_until_ended(grounds, node, lasts_s) for node in (one, other)):
        raise RefusedStartError(f"Nodes {nodes} refuse their own directories.")


def _swap(one: ClusterNode, other: ClusterNode) -> None:
    aside = one.directory / "aside"
    one.log_directory.rename(aside)
    other.log_directory.rename(one.log_directory)
    aside.rename(other.log_directory)


IMAGE_FAULTS: Sequence[Fault] = (
    Fault(
        "stale_image",
        "A node starts with its own directory of some time before.",
        _put_image_back,
        _small_node,
        is_alone=True,
    ),
    Fault(
        "disk_replaced",
        "A killed node starts with an empty, newly formatted disk.",
        _replace_disk,
        is_alone=True,
    ),
    Fault(
        "directories_swapped",
        "Two nodes get each other's directory, must refuse to start, and start with their own.",
        _swap_directories,
        any_two,
        is_alone=True,
    ),
)
