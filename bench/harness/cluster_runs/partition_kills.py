"""One of three brokers with thousands of partitions is killed and started again, many times.

All that is measured can be measured of every kind of broker: what the brokers' Metadata says, the
quorum's epoch, CPU seconds, and how long the brokers that live take to answer ApiVersions, which
needs no work: the longest time shows how long a broker kept its clients waiting. Metadata is asked
for seldom, because thousands of partitions are a part of the load.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Self

from ....clients.protocol.messages.api_versions import ApiVersionsRequest
from ..processes.cluster import Cluster, ClusterNode
from ..processes.process_usage import read_usage
from ..requests.wire import Wire, WireError, partitions_at, prepare

_ASK_S = 20.0
_POLL_S = 0.5
_WITHIN_S = 300.0
_PING_S = 0.02
_PING_VERSION = 0
_REST_S = 10.0
_CALM_S = 3.0
_BUSY = "while True: pass"


class PartitionKill(NamedTuple):
    """What followed one kill, in seconds from the kill, or from the start of the process."""

    led_s: float
    """Until each partition is led by a broker that lives."""
    whole_s: float
    """From the new start until each ISR has all replicas."""
    elections: int
    """Elections of an active controller."""
    fenced: int
    """How often another broker than the killed one was fenced."""
    longest_answer_s: float
    """The longest time that a living broker took to answer."""


@contextmanager
def busy_processes(count: int) -> Generator[None]:
    """So many processes that never rest run beside."""
    processes = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def cores_at_rest(cluster: Cluster) -> list[float]:
    """How much of a core each node uses while nothing happens."""
    time.sleep(_CALM_S)
    before = [read_usage(node.pid).cpu_seconds for node in cluster.brokers]
    time.sleep(_REST_S)
    after = [read_usage(node.pid).cpu_seconds for node in cluster.brokers]
    return [(end - begin) / _REST_S for begin, end in zip(before, after, strict=True)]


def wait_until_whole(cluster: Cluster, partitions: int) -> None:
    """Wait until each of so many partitions has all its replicas in sync. Raises NotUpError."""
    _until_whole(cluster, cluster.brokers[0], partitions)


def kill_in_turn(cluster: Cluster, partitions: int, kills: int) -> Generator[PartitionKill]:
    """Kill one broker after the other, and start each again. Raises NotUpError."""
    for number in range(kills):
        yield _kill(cluster, partitions, cluster.brokers[number % len(cluster.brokers)])
        time.sleep(_CALM_S)


def _kill(cluster: Cluster, partitions: int, victim: ClusterNode) -> PartitionKill:
    living = [node for node in cluster.brokers if node is not victim]
    others = [node.node_id for node in living]
    epoch = cluster.wait_for_leader().epoch
    with _Watch(living) as watch:
        killed = time.monotonic()
        victim.kill()
        cluster.until(
            lambda: _is_led(living[0], partitions, others) or None,
            _WITHIN_S,
            "some partitions have no leader",
            _POLL_S,
        )
        led = time.monotonic()
        time.sleep(_CALM_S)
        started = time.monotonic()
        victim.start()
        _until_whole(cluster, living[0], partitions)
        whole = time.monotonic()
    elections = cluster.wait_for_leader().epoch - epoch
    return PartitionKill(
        led - killed, whole - started, elections, watch.fenced, watch.longest_answer_s
    )


def _until_whole(cluster: Cluster, node: ClusterNode, partitions: int) -> None:
    """Wait until a broker says so. Raises NotUpError."""
    cluster.until(
        lambda: _is_whole(node, partitions) or None, _WITHIN_S, "some ISRs are not whole", _POLL_S
    )


def _is_led(node: ClusterNode, partitions: int, living: Collection[int]) -> bool:
    described = partitions_at(node.bootstrap, None, _ASK_S).values()
    led = sum(partition.leader_id in living for partition in described)
    return led >= partitions and led == len(described)


def _is_whole(node: ClusterNode, partitions: int) -> bool:
    described = partitions_at(node.bootstrap, None, _ASK_S).values()
    return len(described) >= partitions and all(
        len(partition.isr_nodes) == len(partition.replica_nodes) for partition in described
    )


class _Watch:
    """Pings brokers that live, and notes when one of them is fenced in the eyes of another."""

    def __init__(self, living: Sequence[ClusterNode]) -> None:
        self._living = living
        self._ends = threading.Event()
        self._threads = [
            threading.Thread(target=self._ping, args=(node,), name="ping") for node in living
        ]
        self._threads.append(threading.Thread(target=self._look, name="fenced"))
        self.longest_answer_s = 0.0
        self.fenced = 0

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def _ping(self, node: ClusterNode) -> None:
        request = prepare(ApiVersionsRequest(), _PING_VERSION)
        with Wire(node.bootstrap, _WITHIN_S) as wire:
            while not self._ends.wait(_PING_S):
                try:
                    answer_s = wire.answer_ms(request) / 1_000
                except WireError:
                    return
                self.longest_answer_s = max(self.longest_answer_s, answer_s)

    def _look(self) -> None:
        everyone = {node.node_id for node in self._living}
        absent: set[int] = set()
        while not self._ends.wait(_POLL_S):
            seen = [listed for node in self._living if (listed := node.unfenced())]
            now = {node_id for node_id in everyone if any(node_id not in each for each in seen)}
            self.fenced += len(now - absent)
            absent = now
