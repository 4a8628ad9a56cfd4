"""Runs clients in separate processes and collects their results.

A client module of this folder is run as `python -m tierlog.bench.harness.loads.NAME …` and prints
one JSON object of figures. A separate process keeps the client's memory and CPU apart from the
harness and from other clients, and every broker is measured with the same client. Any problem (a
record that was not acknowledged, not read, or read wrong) ends the client with an error, and
`ClientError` contains the client's output.

    result = run_client("librdkafka_load", "produce", "--topic", topic, …)
    with start_client("steady_load", …) as steady:      # in the background
        ...
        result = steady.result()
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self, cast

from ..measurement_error import MeasurementError

if TYPE_CHECKING:
    from .latencies import LatencyRecorder

_POLL_S = 0.005
_KILLED_WITHIN_S = 10.0
_ERROR_LINES = 12
_LATENCIES_PATH = "TIERLOG_CLIENT_LATENCIES"


class ClientError(MeasurementError):
    """A client ended with an error, was killed, or did not end in time."""


class Latency(NamedTuple):
    """One record's latency, and when it was meant to be sent, in seconds from the start."""

    at_s: float
    ms: float


@dataclass(frozen=True, slots=True)
class ClientResult:
    """A client's printed figures, its CPU seconds including its children, and any latencies."""

    figures: Mapping[str, float]
    cpu_seconds: float
    _pairs: "array[float]"

    @property
    def latencies(self) -> Iterator[Latency]:
        """The latencies in the order of their measurement."""
        numbers = iter(self._pairs)
        return (Latency(at_s, ms) for at_s, ms in zip(numbers, numbers, strict=True))

    def record_into(self, recorder: "LatencyRecorder") -> None:
        """Add every latency to a run's recorder."""
        for at_s, ms in self.latencies:
            recorder.record(ms, at_s)


def leave_latencies(pairs: "array[float]") -> None:
    """Write flat (at_s, ms) pairs to the file that the parent process reads."""
    if path := os.environ.get(_LATENCIES_PATH):
        Path(path).write_bytes(pairs.tobytes())


def _read_latencies(path: Path) -> "array[float]":
    pairs = array("d")
    if path.exists():
        pairs.frombytes(path.read_bytes())
    return pairs


class ClientProcess:
    """One running client. Leaving its context kills it if it has not ended."""

    def __init__(self, module: str, arguments: tuple[str, ...]) -> None:
        self._name = " ".join((module, *arguments[:1]))
        self._scratch = tempfile.TemporaryDirectory(prefix="tierlog-client-")
        directory = Path(self._scratch.name)
        self._output, self._errors = directory / "output", directory / "errors"
        self._latencies = directory / "latencies"
        command = [sys.executable, "-m", f"{__package__}.{module}", *arguments]
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env={**os.environ, _LATENCIES_PATH: str(self._latencies)},
            )
        self._cpu_seconds = 0.0

    @property
    def pid(self) -> int:
        return self._process.pid

    def has_ended(self) -> bool:
        """Whether the client has ended, successfully or not; never blocks."""
        if self._process.returncode is None:
            pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                # Popen's own wait would lose the process's resource usage.
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self._cpu_seconds = used.ru_utime + used.ru_stime
        return self._process.returncode is not None

    def result(self, timeout_s: float = 600) -> ClientResult:
        """Wait for the end. Raises ClientError if the client failed or does not end in time."""
        deadline = time.monotonic() + timeout_s
        while not self.has_ended():
            if time.monotonic() > deadline:
                self.close()
                raise ClientError(f"{self._name} did not end within {timeout_s:g} s")
            time.sleep(_POLL_S)
        if self._process.returncode:
            said = self._errors.read_text(errors="replace").splitlines()[-_ERROR_LINES:]
            how = f"exit code {self._process.returncode}"
            raise ClientError(f"{self._name} failed ({how}):\n" + "\n".join(said))
        try:
            figures = cast("dict[str, float]", json.loads(self._output.read_bytes()))
        except ValueError as error:
            raise ClientError(f"{self._name} printed no figures: {error}") from error
        return ClientResult(figures, self._cpu_seconds, _read_latencies(self._latencies))

    def close(self) -> None:
        """Kill the client if it is still running."""
        if not self.has_ended():
            self._process.kill()
            deadline = time.monotonic() + _KILLED_WITHIN_S
            while not self.has_ended() and time.monotonic() < deadline:
                time.sleep(_POLL_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._scratch.cleanup()


def start_client(module: str, *arguments: str) -> ClientProcess:
    """Start a client in the background; use it as a context manager."""
    return ClientProcess(module, arguments)


def run_client(module: str, *arguments: str, timeout_s: float = 600) -> ClientResult:
    """Run a client and wait for it. Raises ClientError if it fails."""
    with start_client(module, *arguments) as client:
        return client.result(timeout_s)
