"""`tierlog.testing.AsyncCluster`: a cluster of processes for asynchronous tests."""

import asyncio
import tempfile
from asyncio.subprocess import PIPE, Process
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
from .control_messages import ANSWER_BYTES_MAX
from .inherited_properties import open_properties


class AsyncCluster:
    """As `Cluster`, with the same acts as coroutines.

    async with AsyncCluster(brokers=3) as cluster:
        await cluster.kill(2)
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
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._answers_due = 0
        """Answers that are still to come: also of acts that nobody waits for any more."""
        self.directory = directory or ""
        """Where everything is; with a file of output for each node, such as `broker-1.log`."""
        self.bootstrap_servers = ""
        """The addresses of all brokers, for clients."""

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def up(self) -> None:
        """Start the cluster; returns when all nodes are ready. Raises ClusterError."""
        if self._process is not None:
            raise ClusterError("The cluster runs already.")
        directory = self._options.directory or tempfile.mkdtemp(prefix=TEMPORARY_PREFIX)
        self.directory = directory
        self._answers_due = 0
        with open_properties(self._options.properties) as properties:
            self._process = await asyncio.create_subprocess_exec(
                *self._options.command(directory, properties),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                start_new_session=True,
                limit=ANSWER_BYTES_MAX,
                pass_fds=[properties],
            )
        try:
            await self._look(request("wait"))
        except BaseException as failure:
            said = await self._end(is_hard=True)
            if isinstance(failure, ClusterError) and said:
                raise ClusterError(said) from None
            raise

    async def close(self) -> None:
        """End the cluster: cleanly in a directory of yours, at once in a temporary one."""
        await self._end(is_hard=self._options.directory is None)

    async def _end(self, *, is_hard: bool) -> str:
        """End the process; returns what it has said on stderr."""
        process, self._process = self._process, None
        if process is None:
            return ""
        try:
            async with asyncio.timeout(ENDS_WITHIN_S):
                _, said = await process.communicate(request("stop", is_hard=is_hard))
        except TimeoutError:
            process.kill()
            _, said = await process.communicate()
        return last_words(said)

    async def status(self) -> ClusterStatus:
        """How the nodes stand. Raises ClusterError."""
        return await self._look(request("status"))

    async def kill(self, *node_ids: int) -> None:
        """End nodes as in a crash (SIGKILL); returns when they are gone. Raises ClusterError."""
        await self._act(request("kill", node_ids, is_hard=True))

    async def terminate(self, *node_ids: int) -> None:
        """End nodes cleanly (SIGTERM); returns when they are gone. Raises ClusterError."""
        await self._act(request("kill", node_ids))

    async def pause(self, *node_ids: int) -> None:
        """Stop the time of nodes (SIGSTOP): they hang. Raises ClusterError."""
        await self._act(request("pause", node_ids))

    async def resume(self, *node_ids: int) -> None:
        """Let paused nodes go on (SIGCONT). Raises ClusterError."""
        await self._act(request("resume", node_ids))

    async def start(self, *node_ids: int) -> None:
        """Start nodes that have ended; returns when all are ready. Raises ClusterError."""
        await self._act(request("start", node_ids))

    async def add(self, rack: str = "") -> int:
        """Add a broker; returns its id when it is ready. Raises ClusterError."""
        added = await self._act(request("add", rack=rack))
        await self._look(request("wait"))
        return int(str(added["node_id"]))

    async def remove(self, node_id: int) -> None:
        """Move a broker's partitions to the others and stop it for good. Raises ClusterError."""
        await self._act(request("remove", [node_id]))
        await self._look(request("wait"))

    async def roll(self) -> None:
        """Restart all nodes in turn, each when all are in sync. Raises ClusterError."""
        await self._act(request("roll"))

    async def _look(self, line: bytes) -> ClusterStatus:
        status = status_of(await self._act(line))
        self.bootstrap_servers = status.bootstrap_servers
        return status

    async def _act(self, line: bytes) -> Mapping[str, object]:
        """Send a request and wait for its last answer. Raises ClusterError."""
        async with self._turn:
            process = self._process
            if process is None or process.stdin is None or process.stdout is None:
                raise ClusterError("The cluster does not run.")
            self._answers_due += 1
            try:
                process.stdin.write(line)
                await process.stdin.drain()
            except ConnectionError:
                raise ClusterError(ENDED) from None
            while True:
                answer = read_answer(await process.stdout.readline())
                self._answers_due -= answer.is_last
                if not self._answers_due:
                    return value_of(answer)
