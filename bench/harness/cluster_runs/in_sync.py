"""Watches which replicas are in sync, by the newest leader epoch that any broker knows."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, Self

from ..processes.cluster import Cluster
from ..requests.probe import NotUpError
from ..requests.wire import partitions_at

_INTERVAL_S = 0.25
_ASK_S = 2.0
_SHOWN = 5


class InSync(NamedTuple):
    """The nodes that were in sync in all their partitions, at a time of `time.time`."""

    at: float
    nodes: frozenset[int]


class _Seen(NamedTuple):
    """One broker's view of a partition."""

    leader_epoch: int
    lagging: frozenset[int]
    """The replicas that are not in sync."""


def _view(bootstrap: str, topics: Sequence[str] | None) -> dict[tuple[str, int], _Seen]:
    """What one broker says; nothing if it does not answer."""
    return {
        place: _Seen(
            partition.leader_epoch,
            frozenset(partition.replica_nodes) - frozenset(partition.isr_nodes),
        )
        for place, partition in partitions_at(bootstrap, topics, _ASK_S).items()
    }


class InSyncWatch:
    """Asks all brokers some times a second. Use as a context manager."""

    def __init__(self, cluster: Cluster, topics: Sequence[str] | None) -> None:
        """`topics` are those to watch; None for all."""
        self._cluster = cluster
        self._topics = topics
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="in-sync")
        self.history: list[InSync] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(60)

    def now(self) -> InSync:
        """Ask all brokers that run; nobody is in sync where none of them answers."""
        newest = self._newest()
        nodes = frozenset(self._cluster.nodes) if newest else frozenset[int]()
        for seen in newest.values():
            nodes -= seen.lagging
        return InSync(time.time(), nodes)

    def _newest(self) -> dict[tuple[str, int], _Seen]:
        running = [node.bootstrap for node in self._cluster.brokers if node.is_alive()]
        newest: dict[tuple[str, int], _Seen] = {}
        with ThreadPoolExecutor(max(1, len(running))) as threads:
            for view in threads.map(partial(_view, topics=self._topics), running):
                for place, seen in view.items():
                    before = newest.get(place)
                    if before is None or seen.leader_epoch > before.leader_epoch:
                        newest[place] = seen
                    elif seen.leader_epoch == before.leader_epoch:
                        newest[place] = _Seen(seen.leader_epoch, seen.lagging | before.lagging)
        return newest

    def _who_lags(self) -> str:
        lagging = [
            f"{topic}-{partition}: {', '.join(map(str, sorted(seen.lagging)))}"
            for (topic, partition), seen in sorted(self._newest().items())
            if seen.lagging
        ]
        more = f" and {len(lagging) - _SHOWN} more" if len(lagging) > _SHOWN else ""
        return "; ".join(lagging[:_SHOWN]) + more or "no broker answers"

    def is_everything_in_sync(self) -> bool:
        """Whether every node runs, is unfenced in its own eyes, and is in sync everywhere.

        A node that was just killed is still in sync in the eyes of the others.
        """
        return all(
            node.is_alive() and node.node_id in node.unfenced() for node in self._cluster.brokers
        ) and self.now().nodes == frozenset(self._cluster.nodes)

    def wait_for_all(self, timeout_s: float) -> None:
        """Wait until every node is in sync everywhere. Raises NotUpError."""
        deadline = time.monotonic() + timeout_s
        while self.now().nodes != frozenset(self._cluster.nodes):
            if time.monotonic() > deadline:
                error = NotUpError(
                    f"Not all replicas were in sync within {timeout_s:g} s. Those that lag, by "
                    f"partition: {self._who_lags()}."
                )
                error.add_note(self._cluster.log_tails())
                raise error
            time.sleep(_INTERVAL_S)

    def _run(self) -> None:
        while not self._ends.wait(_INTERVAL_S):
            self.history.append(self.now())
