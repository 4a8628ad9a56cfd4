"""What is done to a local cluster through its brokers: status, removal, rolling restart.

These wait for the cluster to be whole, and say how far they are. Only one change is under way at a
time; acts on single nodes go on meanwhile.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine

from ...clients.errors import KafkaError
from ...clients.text_table import counted
from . import cluster_view
from .cluster_plan import Seat
from .cluster_status import ClusterStatus
from .cluster_view import View
from .control_messages import RefusedError
from .local_cluster import LocalCluster, Say
from .node_process import NodeState
from .replica_moves import moves_away_from

IN_SYNC_WITHIN_S = 600.0
"""How long a change waits until all replicas are in sync, or have moved."""

_LOOK_MS = 2_000
_CHANGE_MS = 30_000
_POLL_S = 0.05
_PROGRESS_S = 5.0
_ROUNDS_MAX = 5
"""How often topics that are created meanwhile are moved away from a broker that leaves."""


class ClusterChanges:
    """See the top of this file."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._change = ""
        """The change that is under way."""

    async def status(self) -> ClusterStatus:
        """How the nodes stand, with what a broker says of replicas and quorum if one answers."""
        status = self._cluster.status()
        answered = await cluster_view.first_view(self._cluster.running_addresses(), _LOOK_MS)
        if answered is None:
            return status
        address, view = answered
        try:
            active = (await cluster_view.quorum(address, _LOOK_MS)).leader_id
        except KafkaError:
            active = None
        leads = Counter(partition.leader for partition in view.partitions)
        replicas = Counter(id_ for partition in view.partitions for id_ in partition.replicas)
        in_sync = Counter(id_ for partition in view.partitions for id_ in partition.isr)
        nodes = tuple(
            node._replace(
                is_active_controller=None if active is None else node.node_id == active,
                leads=leads[node.node_id] if node.address else None,
                replicas=replicas[node.node_id] if node.address else None,
                in_sync=in_sync[node.node_id] if node.address else None,
            )
            for node in status.nodes
        )
        return status._replace(nodes=nodes)

    async def add(self, rack: str) -> Seat:
        """Start a new broker. Raises RefusedError."""
        with self._only("add"):
            return await self._cluster.add(rack)

    async def remove(self, node_id: int, progress: Say) -> None:
        """Move the replicas of a broker to the others, stop it and unregister it.

        Raises RefusedError.
        """
        with self._only("remove"):
            await self._remove(node_id, progress)

    async def roll(self, progress: Say) -> None:
        """Restart the nodes one after the other, each when the one before is in sync again.

        The active controller is the last. Raises RefusedError.
        """
        with self._only("roll"):
            await self._roll(progress)

    def _only(self, change: str) -> "_OnlyChange":
        if self._change:
            raise RefusedError(
                f"`tierlog cluster {self._change}` is under way: wait until it is done."
            )
        return _OnlyChange(self._set_change, change)

    def _set_change(self, change: str) -> None:
        self._change = change

    async def _remove(self, node_id: int, progress: Say) -> None:
        cluster = self._cluster
        node = cluster.node(node_id)
        seat = cluster.plan.seats[node_id]
        if seat.is_controller:
            raise RefusedError(
                f"{seat.name} cannot leave: it is a controller, and the controllers of a local"
                " cluster do not change. Brokers that were added can leave, and all brokers of a"
                " cluster that was begun with --controllers."
            )
        if node.state is not NodeState.RUNNING:
            raise RefusedError(
                f"{seat.name} is {node.state.value}: start it first"
                f" (`tierlog cluster start {node_id}`), so that its partitions can move."
            )
        await self._until_whole(progress, "before the removal")
        for _ in range(_ROUNDS_MAX):
            if not await self._move_away(node_id, progress):
                break
        else:
            raise RefusedError(
                f"{seat.name} cannot leave: topics are created on it all the time. Try again."
            )
        await cluster.forget(node_id)
        await self._unregister(node_id)
        progress(f"{seat.name} has left; its directory stays")

    async def _move_away(self, node_id: int, progress: Say) -> bool:
        """Move what the broker has; False if it has nothing."""
        address, view = await self._view(but=[node_id])
        moves = moves_away_from(node_id, view.partitions, view.brokers)
        if not moves:
            return False
        progress(f"moving {counted(len(moves), 'partition')} away from broker-{node_id}")
        try:
            await cluster_view.reassign(address, moves, _CHANGE_MS)
        except KafkaError as error:
            raise RefusedError(f"The partitions cannot be moved: {error.message}") from None

        async def remaining() -> str:
            count = await cluster_view.ongoing_moves(address, _CHANGE_MS)
            return counted(count, "partition", "has to move", "have to move") if count else ""

        await self._until_nothing(remaining, progress)

        # A broker may answer from before the move.
        async def stale() -> str:
            _, view = await self._view(but=[node_id])
            named = [partition for partition in view.partitions if node_id in partition.replicas]
            left = [
                partition for partition in named if (partition.topic, partition.partition) in moves
            ]
            return counted(len(left), "partition", "has to move", "have to move") if left else ""

        await self._until_nothing(stale, progress)
        return True

    async def _unregister(self, node_id: int) -> None:
        """A broker can be unregistered once it is fenced, which its clean stop sees to."""
        address, _ = await self._view()
        try:
            await cluster_view.unregister(address, node_id, _CHANGE_MS)
        except KafkaError as error:
            raise RefusedError(
                f"broker-{node_id} has left, but is registered still: {error}."
            ) from None

    async def _view(self, but: Collection[int] = ()) -> tuple[str, View]:
        addresses = self._cluster.running_addresses(but)
        answered = await cluster_view.first_view(addresses, _CHANGE_MS)
        if answered is None:
            raise RefusedError("No broker answers: `tierlog cluster status` says which run.")
        return answered

    async def _roll(self, progress: Say) -> None:
        cluster = self._cluster
        if cluster.plan.is_one_process:
            await self._restart(next(iter(cluster.plan.seats)), "1 of 1", progress)
            return
        await self._until_whole(progress, "before the restarts")
        address, _ = await self._view()
        active = (await cluster_view.quorum(address, _CHANGE_MS)).leader_id
        order = sorted(cluster.plan.seats, key=lambda node_id: (node_id == active, node_id))
        for at, node_id in enumerate(order, 1):
            if node_id in cluster.plan.seats:
                await self._restart(node_id, f"{at} of {len(order)}", progress)

    async def _restart(self, node_id: int, which: str, progress: Say) -> None:
        loop = asyncio.get_running_loop()
        name = self._cluster.plan.seats[node_id].name
        progress(f"{name}: stopping ({which})")
        began = loop.time()
        await self._cluster.kill([node_id], is_hard=False)
        stopped = loop.time()
        await self._cluster.start([node_id])
        ready = loop.time()
        await self._until_whole(progress, f"after the restart of {name}")
        progress(
            f"{name}: stopped in {stopped - began:.2f} s, ready in {ready - stopped:.2f} s,"
            f" all in sync in {loop.time() - ready:.2f} s ({which})"
        )

    async def _until_whole(self, progress: Say, when: str) -> None:
        """Wait until every node runs, and every broker says that all replicas are in sync.

        Raises RefusedError if a node does not run, or it takes too long.
        """

        async def missing() -> str:
            for node_id, state in self._cluster.states().items():
                if state is not NodeState.RUNNING:
                    name = self._cluster.plan.seats[node_id].name
                    raise RefusedError(
                        f"{name} is {state.value} {when}:"
                        f" `tierlog cluster start {node_id}`, then try again."
                    )
            return await self._lagging()

        await self._until_nothing(missing, progress)

    async def _lagging(self) -> str:
        """What is not in sync yet, in the eyes of any broker; empty if nothing is."""
        brokers = {seat.node_id for seat in self._cluster.plan.brokers}
        addresses = self._cluster.running_addresses()
        for address in addresses:
            view = await cluster_view.view(address, _CHANGE_MS)
            if not view.brokers >= brokers:
                return f"waiting for broker-{min(brokers - view.brokers)}"
            if view.lagging:
                return f"{counted(len(view.lagging), 'partition', 'is', 'are')} not in sync yet"
        behind = (await cluster_view.quorum(addresses[0], _CHANGE_MS)).behind
        return f"controller {min(behind)} has not caught up yet" if behind else ""

    async def _until_nothing(
        self, remaining: Callable[[], Coroutine[None, None, str]], progress: Say
    ) -> None:
        """Wait until `remaining` returns an empty text; say the text now and then."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + IN_SYNC_WITHIN_S
        say_at = loop.time() + _PROGRESS_S
        while True:
            try:
                text = await remaining()
            except KafkaError as error:
                text = f"a broker does not answer: {error.message}"
            if not text:
                return
            now = loop.time()
            if now > deadline:
                raise RefusedError(f"Not within {IN_SYNC_WITHIN_S:.0f} s: {text}.")
            if now > say_at:
                progress(text)
                say_at = now + _PROGRESS_S
            await asyncio.sleep(_POLL_S)


class _OnlyChange:
    """While it is entered, no other change begins."""

    def __init__(self, set_change: Callable[[str], None], change: str) -> None:
        self._set_change = set_change
        self._name = change

    def __enter__(self) -> None:
        self._set_change(self._name)

    def __exit__(self, *_: object) -> None:
        self._set_change("")
