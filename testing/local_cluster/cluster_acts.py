"""From a request of the control socket to the act."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from .control_messages import RefusedError, Request
from .local_cluster import LocalCluster, Say

if TYPE_CHECKING:
    from .cluster_changes import ClusterChanges

Done = Mapping[str, object]


class ClusterActs:
    """Performs requests on one cluster."""

    def __init__(self, cluster: LocalCluster, on_stop: Callable[[bool], None]) -> None:
        """`on_stop` ends the cluster; its argument says whether at once (SIGKILL)."""
        self._cluster = cluster
        self._loaded: ClusterChanges | None = None
        self._on_stop = on_stop
        self._acts: Mapping[str, Callable[[Request, Say], Awaitable[Done]]] = {
            "status": self._status,
            "wait": self._wait,
            "kill": self._kill,
            "pause": self._pause,
            "resume": self._resume,
            "start": self._start,
            "add": self._add,
            "remove": self._remove,
            "roll": self._roll,
            "stop": self._stop,
        }

    @property
    def _changes(self) -> "ClusterChanges":
        """Loaded when it is needed: a start does not load a client of the brokers."""
        if self._loaded is None:
            from .cluster_changes import ClusterChanges

            self._loaded = ClusterChanges(self._cluster)
        return self._loaded

    async def perform(self, request: Request, progress: Say) -> Done:
        """Do it; the result is for `Answer.done`. Raises RefusedError."""
        if request.act not in ("status", "wait", "stop") and not self._cluster.settled.is_set():
            raise RefusedError("The cluster is starting: try again when it is ready.")
        if request.act in ("kill", "pause", "resume", "start", "remove") and not request.nodes:
            raise RefusedError(f"Say which node to {request.act}: its number.")
        return await self._acts[request.act](request, progress)

    async def _status(self, request: Request, progress: Say) -> Done:
        return (await self._changes.status()).to_json()

    async def _wait(self, request: Request, progress: Say) -> Done:
        await self._cluster.settled.wait()
        if self._cluster.problem:
            raise RefusedError(self._cluster.problem)
        return self._cluster.status().to_json()

    async def _kill(self, request: Request, progress: Say) -> Done:
        await self._cluster.kill(request.nodes, is_hard=request.is_hard)
        return {}

    async def _pause(self, request: Request, progress: Say) -> Done:
        self._cluster.pause(request.nodes)
        return {}

    async def _resume(self, request: Request, progress: Say) -> Done:
        self._cluster.resume(request.nodes)
        return {}

    async def _start(self, request: Request, progress: Say) -> Done:
        await self._cluster.start(request.nodes, waits=request.waits)
        return {}

    async def _add(self, request: Request, progress: Say) -> Done:
        seat = await self._changes.add(request.rack)
        return {"node_id": seat.node_id, "name": seat.name, "address": seat.address}

    async def _remove(self, request: Request, progress: Say) -> Done:
        for node_id in request.nodes:
            await self._changes.remove(node_id, progress)
        return {}

    async def _roll(self, request: Request, progress: Say) -> Done:
        await self._changes.roll(progress)
        return {}

    async def _stop(self, request: Request, progress: Say) -> Done:
        self._on_stop(request.is_hard)
        return {}
