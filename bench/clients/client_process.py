"""Clients in processes of their own: started, waited for, and what they found.

A client module of this folder is run as `python -m tierlog.bench.clients.NAME …` and prints one
JSON object of figures. A process of its own keeps the client's memory and CPU out of the harness
and of each other, and gives every broker the same client. Whatever a client does not like (a record
that was not acknowledged, not read, read wrong) ends it with an error, and `ClientError` carries
what it said.

    result = run_client("librdkafka_load", "produce", "--topic", topic, …)
    with start_client("steady_load", …) as steady:      # beside others
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

from ..target import MeasurementError

if TYPE_CHECKING:
    from ..latencies import LatencyRecorder

_POLL_S = 0.005
_KILLED_WITHIN_S = 10.0
_ERROR_LINES = 12
_LATENCIES_PATH = "TIERLOG_CLIENT_LATENCIES"


class ClientError(MeasurementError):
    """A client ended with an error, was killed, or did not end in time."""


class Latency(NamedTuple):
    """What one record had to wait, and when it was meant to be sent, counted from the start."""

    at_s: float
    ms: float


@dataclass(frozen=True, slots=True)
class ClientResult:
    """What a client printed; its CPU seconds, with those of its children; each record's latency,
    where the client takes them.
    """

    figures: Mapping[str, float]
    cpu_seconds: float
    _pairs: "array[float]"

    @property
    def latencies(self) -> Iterator[Latency]:
        """In the order in which they were taken."""
        numbers = iter(self._pairs)
        return (Latency(at_s, ms) for at_s, ms in zip(numbers, numbers, strict=True))

    def record_into(self, recorder: "LatencyRecorder") -> None:
        """Give every latency to a run's recorder."""
        for at_s, ms in self.latencies:
            recorder.record(ms, at_s)


def leave_latencies(pairs: "array[float]") -> None:
    """Leave (at_s, ms) pairs, flat, where the process that waits for this client finds them."""
    if path := os.environ.get(_LATENCIES_PATH):
        Path(path).write_bytes(pairs.tobytes())


def _read_latencies(path: Path) -> "array[float]":
    pairs = array("d")
    if path.exists():
        pairs.frombytes(path.read_bytes())
    return pairs


class ClientProcess:
    """One running client. Leaving its context kills it when it has not ended."""

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
        """Whether the client is done, well or not; never waits."""
        if self._process.returncode is None:
            pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                # Popen would have waited without asking what the process had used.
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self._cpu_seconds = used.ru_utime + used.ru_stime
        return self._process.returncode is not None

    def result(self, timeout_s: float = 600) -> ClientResult:
        """Wait for the end. Raises ClientError when it is not a good one, or does not come."""
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
        """Kill the client when it still runs."""
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
    """Start a client beside whatever else goes on; use it as a context manager."""
    return ClientProcess(module, arguments)


def run_client(module: str, *arguments: str, timeout_s: float = 600) -> ClientResult:
    """Run a client to its end. Raises ClientError when that is not a good one."""
    with start_client(module, *arguments) as client:
        return client.result(timeout_s)
