"""How a test's process starts the process of a cluster, and what both say to each other.

Nothing here does I/O: `sync_cluster.py` and `async_cluster.py` stand around it.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .cluster_status import ClusterStatus, status_from_json
from .control_messages import Answer, RefusedError, Request, decode_answer

ENDS_WITHIN_S = 60.0
"""The cluster's process bounds a clean stop by 30 seconds for brokers and for controllers."""

TEMPORARY_PREFIX = "tierlog-cluster-"
ENDED = "The cluster's process has ended."


class ClusterError(Exception):
    """A cluster did not start, or an act on it was refused; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What a cluster is started with; `tierlog cluster up --help` says more of each."""

    brokers: int = 3
    controllers: int = 0
    """Controllers that are processes of their own; with 0, brokers are controllers."""
    directory: str | None = None
    """None for a temporary one, which is removed at the end."""
    racks: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    """What every node has in its properties file."""

    def command(self, directory: str, properties: int) -> list[str]:
        """The command line of the cluster's process, which inherits the open file of properties."""
        words = [sys.executable, "-m", "tierlog.cli", "cluster", "up", "--supervised"]
        words += ["--dir", directory, "--brokers", str(self.brokers)]
        words += ["--controllers", str(self.controllers)]
        words += ["--rack", ",".join(self.racks)] if self.racks else []
        words += ["--temporary"] if self.directory is None else []
        return [*words, "--properties", f"/dev/fd/{properties}"]


def last_words(said: bytes) -> str:
    """What the cluster's process has said on stderr, as one message; empty if nothing."""
    return said.decode(errors="replace").strip().removeprefix("tierlog cluster: ")


def read_answer(line: bytes) -> Answer:
    """A line of the cluster's process. Raises ClusterError."""
    if not line:
        raise ClusterError(ENDED)
    try:
        return decode_answer(line)
    except RefusedError as error:
        raise ClusterError(str(error)) from None


def value_of(answer: Answer) -> Mapping[str, object]:
    """What was done. Raises ClusterError."""
    try:
        return answer.value()
    except RefusedError as error:
        raise ClusterError(str(error)) from None


def status_of(done: Mapping[str, object]) -> ClusterStatus:
    """The status that was answered. Raises ClusterError."""
    try:
        return status_from_json(done)
    except RefusedError as error:
        raise ClusterError(str(error)) from None


def request(act: str, nodes: Iterable[int] = (), *, is_hard: bool = False, rack: str = "") -> bytes:
    """A request as a line."""
    return Request(act, tuple(nodes), is_hard=is_hard, rack=rack).encode()
