"""`tierlog.testing.Cluster`: a cluster of processes for tests that are not asynchronous."""

import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from .cluster_options import (
    ENDED,
    ENDS_WITHIN_S,
    TEMPORARY_PREFIX,
    ClusterError,
    ClusterOptions,
    last_words,
    read_answer,
    request,
    status_of,
    value_of,
)
from .cluster_status import ClusterStatus
from .inherited_properties import open_properties


class Cluster:
    """Brokers and controllers, each a process of `tierlog serve` on 127.0.0.1.

        with Cluster(brokers=3) as cluster:
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
            cluster.kill(2)
            cluster.start(2)

    A process of its own, `tierlog cluster up`, runs them. It ends, and they with it, when this
    process does, even by SIGKILL. Acts may come from several threads; one follows the other.
    """

    def __init__(
        self,
        *,
        brokers: int = 3,
        controllers: int = 0,
        directory: str | None = None,
        racks: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """See `ClusterOptions`; nothing is started yet."""
        self._options = ClusterOptions(
            brokers, controllers, directory, tuple(racks), dict(properties or {})
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()
        self._answers_due = 0
        """Answers that are still to come: also of acts that nobody waits for any more."""
        self.directory = directory or ""
        """Where everything is; with a file of output for each node, such as `broker-1.log`."""
        self.bootstrap_servers = ""
        """The addresses of all brokers, for clients."""

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def up(self) -> None:
        """Start the cluster; returns when all nodes are ready. Raises ClusterError."""
        if self._process is not None:
            raise ClusterError("The cluster runs already.")
        directory = self._options.directory or tempfile.mkdtemp(prefix=TEMPORARY_PREFIX)
        self.directory = directory
        self._answers_due = 0
        with open_properties(self._options.properties) as properties:
            self._process = subprocess.Popen(
                self._options.command(directory, properties),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=[properties],
            )
        try:
            self._look(request("wait"))
        except BaseException as failure:
            said = self._end(is_hard=True)
            if isinstance(failure, ClusterError) and said:
                raise ClusterError(said) from None
            raise

    def close(self) -> None:
        """End the cluster: cleanly in a directory of yours, at once in a temporary one."""
        self._end(is_hard=self._options.directory is None)

    def _end(self, *, is_hard: bool) -> str:
        """End the process; returns what it has said on stderr."""
        process, self._process = self._process, None
        if process is None:
            return ""
        try:
            _, said = process.communicate(request("stop", is_hard=is_hard), ENDS_WITHIN_S)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            process.kill()
            _, said = process.communicate()
        return last_words(said)

    def status(self) -> ClusterStatus:
        """How the nodes stand. Raises ClusterError."""
        return self._look(request("status"))

    def kill(self, *node_ids: int) -> None:
        """End nodes as in a crash (SIGKILL); returns when they are gone. Raises ClusterError."""
        self._act(request("kill", node_ids, is_hard=True))

    def terminate(self, *node_ids: int) -> None:
        """End nodes cleanly (SIGTERM); returns when they are gone. Raises ClusterError."""
        self._act(request("kill", node_ids))

    def pause(self, *node_ids: int) -> None:
        """Stop the time of nodes (SIGSTOP): they hang. Raises ClusterError."""
        self._act(request("pause", node_ids))

    def resume(self, *node_ids: int) -> None:
        """Let paused nodes go on (SIGCONT). Raises ClusterError."""
        self._act(request("resume", node_ids))

    def start(self, *node_ids: int) -> None:
        """Start nodes that have ended; returns when all are ready. Raises ClusterError."""
        self._act(request("start", node_ids))

    def add(self, rack: str = "") -> int:
        """Add a broker; returns its id when it is ready. Raises ClusterError."""
        added = self._act(request("add", rack=rack))
        self._look(request("wait"))
        return int(str(added["node_id"]))

    def remove(self, node_id: int) -> None:
        """Move a broker's partitions to the others and stop it for good. Raises ClusterError."""
        self._act(request("remove", [node_id]))
        self._look(request("wait"))

    def roll(self) -> None:
        """Restart all nodes in turn, each when all are in sync. Raises ClusterError."""
        self._act(request("roll"))

    def _look(self, line: bytes) -> ClusterStatus:
        status = status_of(self._act(line))
        self.bootstrap_servers = status.bootstrap_servers
        return status

    def _act(self, line: bytes) -> Mapping[str, object]:
        """Send a request and wait for its last answer. Raises ClusterError."""
        with self._turn:
            process = self._process
            if process is None or process.stdin is None or process.stdout is None:
                raise ClusterError("The cluster does not run.")
            self._answers_due += 1
            try:
                process.stdin.write(line)
                process.stdin.flush()
            except BrokenPipeError:
                raise ClusterError(ENDED) from None
            while True:
                answer = read_answer(process.stdout.readline())
                self._answers_due -= answer.is_last
                if not self._answers_due:
                    return value_of(answer)
