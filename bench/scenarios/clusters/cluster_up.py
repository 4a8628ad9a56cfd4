"""A developer's cluster of three brokers in one command: how soon it is there, and what it costs.

`tierlog cluster up` in a new directory, until its ready line; three nodes of Apache Kafka that are
formatted and started together, until each lists itself as a broker. Both count from the first
process on, so that the formatting is a part of it: ours formats in the process that runs the
cluster, Kafka needs a JVM for each node. Then both are left alone, stopped, and started again in
the same directory, where nothing has to be formatted.

Memory is proportional (PSS): pages that processes share count once. Ours is given for the brokers
and with the process that runs them; idle CPU always includes it.
"""

import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ...harness.measurement_error import MeasurementError
from ...harness.processes.cluster import Cluster, combined
from ...harness.processes.process_usage import read_proportional_bytes, read_usage
from ...harness.processes.tierlog_node import tierlog_command, user_environment
from ...harness.requests.probe import NotUpError
from ...harness.targets.target import RunningTarget, Target
from ...recorder import MEBIBYTE, Recorder
from ...scenario import Case, Plan, Scale, Scenario
from .failover import NODES, needs_a_cluster

_SETTLE_S = {Scale.SMOKE: 1.0, Scale.SMALL: 10.0, Scale.FULL: 10.0}
_WATCH_S = {Scale.SMOKE: 2.0, Scale.SMALL: 30.0, Scale.FULL: 60.0}
_REPEATS = {Scale.SMOKE: 1, Scale.SMALL: 3, Scale.FULL: 5}
_STARTS_S = 30.0
_READY_WITHIN_S = 300.0
_STOPPED_WITHIN_S = 60.0
_POLL_S = 0.005
_READY = re.compile(r" cluster ready on ")


class _Kind(Protocol):
    """A cluster of three, which can be started again."""

    def start(self) -> float:
        """Start it; seconds until it is ready. Raises NotUpError."""
        ...

    def stop(self) -> float:
        """Stop it cleanly; the seconds that this took."""
        ...

    def kill(self) -> None: ...

    def brokers(self) -> Sequence[int]:
        """The processes of the brokers."""
        ...

    def others(self) -> Sequence[int]:
        """Processes that run the brokers."""
        ...

    def said(self) -> str:
        """The end of what it has printed."""
        ...


class _Ours:
    """`tierlog cluster up`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._output = directory.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        with self._output.open("wb") as output:
            began = time.monotonic()
            process = self._process = subprocess.Popen(
                tierlog_command("cluster", "up", "--dir", str(self._directory)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=user_environment(),
            )
        while not _READY.search(self._output.read_text(errors="replace")):
            if process.poll() is not None:
                raise NotUpError("`tierlog cluster up` has ended.")
            if time.monotonic() - began > _READY_WITHIN_S:
                raise NotUpError(f"It was not ready within {_READY_WITHIN_S:g} s.")
            time.sleep(_POLL_S)
        return time.monotonic() - began

    def stop(self) -> float:
        assert self._process is not None, "It was not started."
        began = time.monotonic()
        self._process.terminate()
        self._process.wait(_STOPPED_WITHIN_S)
        return time.monotonic() - began

    def kill(self) -> None:
        # Its brokers die with it.
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def others(self) -> Sequence[int]:
        assert self._process is not None, "It was not started."
        return [self._process.pid]

    def brokers(self) -> Sequence[int]:
        (pid,) = self.others()
        return [int(part) for part in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def said(self) -> str:
        return "\n".join(self._output.read_text(errors="replace").splitlines()[-30:])


class _Kafka:
    """Three nodes of Apache Kafka, each broker and controller."""

    def __init__(self, directory: Path) -> None:
        self._cluster = Cluster(directory, combined("kafka", "kafka", "kafka"))

    def start(self) -> float:
        began = time.monotonic()
        self._cluster.start()
        return time.monotonic() - began

    def stop(self) -> float:
        began = time.monotonic()
        self._cluster.stop()
        return time.monotonic() - began

    def kill(self) -> None:
        self._cluster.kill()

    def brokers(self) -> Sequence[int]:
        return [node.pid for node in self._cluster.nodes.values()]

    def others(self) -> Sequence[int]:
        return []

    def said(self) -> str:
        return self._cluster.log_tails()


class ClusterUp:
    """One run: a new cluster, a quiet minute, a stop, and a start in the same directory."""

    name = "cluster_up"
    summary = "`tierlog cluster up`: seconds until three brokers are ready, memory, idle CPU"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return [Case("three brokers")]

    def plan(self, scale: Scale) -> Plan:
        repeats = _REPEATS[scale]
        seconds = _STARTS_S + _SETTLE_S[scale] + _WATCH_S[scale]
        return Plan(0, repeats, "run", expected_seconds=repeats * seconds)

    def refuses(self, case: Case, target: Target) -> str | None:
        return needs_a_cluster(target)

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        directory = target.directory / "cluster"
        cluster: _Kind = _Kafka(directory) if target.name == "kafka" else _Ours(directory)
        try:
            recorder.figure("new_ready_s", cluster.start())
            _watch(cluster, recorder, scale)
            recorder.figure("stop_s", cluster.stop())
            recorder.figure("again_ready_s", cluster.start())
        except (NotUpError, subprocess.TimeoutExpired) as error:
            raise MeasurementError(f"{error}\n{cluster.said()}") from error
        finally:
            cluster.kill()


def _watch(cluster: _Kind, recorder: Recorder, scale: Scale) -> None:
    """CPU of the start, and memory and CPU while nobody uses the cluster."""
    brokers, others = cluster.brokers(), cluster.others()
    if len(brokers) != NODES:
        raise MeasurementError(f"It has {len(brokers)} processes of brokers.")
    everything = [*brokers, *others]
    recorder.figure("start_cpu_s", _cpu_seconds(everything))
    time.sleep(_SETTLE_S[scale])
    before, began = _cpu_seconds(everything), time.monotonic()
    time.sleep(_WATCH_S[scale])
    used, lasted = _cpu_seconds(everything) - before, time.monotonic() - began
    recorder.figure("idle_core_percent", used / lasted * 100)
    of_brokers = sum(map(read_proportional_bytes, brokers))
    recorder.figure("brokers_proportional_mib", of_brokers / MEBIBYTE)
    of_all = of_brokers + sum(map(read_proportional_bytes, others))
    recorder.figure("all_proportional_mib", of_all / MEBIBYTE)


def _cpu_seconds(pids: Sequence[int]) -> float:
    return sum(read_usage(pid).cpu_seconds for pid in pids)


SCENARIO: Scenario = ClusterUp()
