"""Records one run: figures, latencies, and the resources that broker and clients used.

Nothing is written during the run. The runner writes the figures afterwards, if the run counts: if
no client and no broker died.
"""

import math
import resource
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .figures import Figure, RunKey
from .harness.measurement_error import MeasurementError
from .harness.processes.process_usage import read_network_bytes
from .harness.processes.system_calls import CountedCalls
from .harness.targets.target import RunningTarget

if TYPE_CHECKING:
    from .harness.loads.latencies import LatencyRecorder

GIGABYTE = 10**9
MEBIBYTE = 1 << 20


@dataclass(slots=True)
class Work:
    """The amount of work in a usage block, if it is not known beforehand."""

    nbytes: int | None = None
    requests: int | None = None


def client_cpu_seconds() -> float:
    """The CPU time of this process and of ended client processes."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
    return sum(each.ru_utime + each.ru_stime for each in used)


class Recorder:
    """Collects the figures and latencies of one run."""

    def __init__(self, key: RunKey) -> None:
        self.key = key
        self._figures: dict[str, float] = {}
        self._histograms: dict[str, LatencyRecorder] = {}
        self.counts_work = False
        """Whether system calls and context switches of the broker, and requests of clients, are
        counted wherever usage is measured. This costs both CPU: such a run is not timed."""

    def figure(self, metric: str, value: float) -> None:
        """Record a number; the metric's name ends with its unit (`start_s`, `disk_mb`).

        Raises MeasurementError if it is not finite, or if the metric already has a value.
        """
        if not math.isfinite(value):
            raise MeasurementError(f"{metric} came out as {value}.")
        if metric in self._figures:
            raise MeasurementError(f"{metric} was measured twice in one run.")
        self._figures[metric] = float(value)

    def histogram(self, name: str = "") -> "LatencyRecorder":
        """The recorder for latencies of this run; mean, maximum and percentiles become figures.

        If a run has several, each has a name, which prefixes its metrics (`produce_p99_ms`).
        """
        # This import is as large as numpy, and a run without latencies does not need it.
        from .harness.loads.latencies import LatencyRecorder

        return self._histograms.setdefault(name, LatencyRecorder())

    @contextmanager
    def usage(
        self,
        target: RunningTarget,
        *,
        nbytes: int | None = None,
        requests: int | None = None,
        name: str = "",
    ) -> Generator[Work, None, None]:
        """Measure the resources that broker and clients use in this block.

        Records broker_cpu_s, client_cpu_s, resident_mib (at the end), disk_read_mb, disk_written_mb
        and network_mb; with `nbytes` broker_cpu_s_per_gb and client_cpu_s_per_gb; with `requests`
        requests_per_broker_cpu_s. The block may also set both on the yielded `Work`. `name` is the
        prefix of all these metrics. The broker's metrics are left out if they cannot be read.
        Client processes are counted if they end within the block. If the broker ends within it,
        MeasurementError is raised.
        """
        prefix = f"{name}_" if name else ""
        work = Work(nbytes, requests)
        network, clients, before = read_network_bytes(), client_cpu_seconds(), target.usage()
        with self._counted(target, prefix, work):
            yield work
        try:
            after = target.usage()
        except FileNotFoundError as error:
            raise MeasurementError("The broker ended while it was measured.") from error
        client_s = client_cpu_seconds() - clients
        self.figure(f"{prefix}client_cpu_s", client_s)
        self.figure(f"{prefix}network_mb", (read_network_bytes() - network) / 1e6)
        if work.nbytes:
            self.figure(f"{prefix}client_cpu_s_per_gb", client_s / (work.nbytes / GIGABYTE))
        if before is None or after is None:
            return
        cpu_s = after.cpu_seconds - before.cpu_seconds
        self.figure(f"{prefix}broker_cpu_s", cpu_s)
        self.figure(f"{prefix}resident_mib", after.resident_bytes / MEBIBYTE)
        self.figure(f"{prefix}disk_read_mb", (after.read_bytes - before.read_bytes) / 1e6)
        self.figure(f"{prefix}disk_written_mb", (after.written_bytes - before.written_bytes) / 1e6)
        if work.nbytes:
            self.figure(f"{prefix}broker_cpu_s_per_gb", cpu_s / (work.nbytes / GIGABYTE))
        if work.requests and cpu_s > 0:
            self.figure(f"{prefix}requests_per_broker_cpu_s", work.requests / cpu_s)

    @contextmanager
    def _counted(
        self, target: RunningTarget, prefix: str, work: Work
    ) -> Generator[None, None, None]:
        if not self.counts_work:
            yield
            return
        with CountedCalls(target.pids()) as counted:
            yield
        for name, count in counted.counts.items():
            if work.nbytes:
                self.figure(f"{prefix}{name}_per_gb", count / (work.nbytes / GIGABYTE))
            if work.requests:
                self.figure(f"{prefix}{name}_per_request", count / work.requests)

    def histograms(self) -> dict[str, "LatencyRecorder"]:
        """The histograms by name, for the runner."""
        return dict(self._histograms)

    def figures(self) -> list[Figure]:
        """Every figure of this run, including those of latencies, for the runner.

        Raises MeasurementError if a histogram is empty or the run has no figures.
        """
        numbers = dict(self._figures)
        for name, latencies in self._histograms.items():
            figures = latencies.figures()
            if not figures:
                raise MeasurementError("No latency was recorded.")
            prefix = f"{name}_" if name else ""
            numbers |= {prefix + metric: value for metric, value in figures.items()}
        if not numbers:
            raise MeasurementError("Nothing was measured.")
        scenario, case, target, tiered, run = self.key
        return [
            Figure(scenario, case, target, tiered, metric, value, run)
            for metric, value in numbers.items()
        ]
