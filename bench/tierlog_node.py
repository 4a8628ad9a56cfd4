"""A tierlog broker in a process of its own, started as a user starts it.

The twin of `kafka_peer.KafkaNode`: the benchmarks drive either through the same few names.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from .probe import NotUpError, free_port, wait_until_up


class BrokerNode(Protocol):
    """A broker that a benchmark starts, loads, watches and stops."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def pid(self) -> int: ...

    def start(self, timeout_s: float = 60) -> float:
        """Start and wait: seconds to the first answered Metadata request."""
        ...

    def stop(self, timeout_s: float = 40) -> None: ...


def _environment() -> dict[str, str]:
    """As a user's shell has it: compiled modules are kept, nothing is held back when printing."""
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONUNBUFFERED": "1"}


class TierlogNode:
    """`tierlog serve` on 127.0.0.1 with its data and its tier under one directory."""

    def __init__(
        self, directory: Path, *, properties: Mapping[str, str] | None = None, port: int = 0
    ) -> None:
        self.directory = directory
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._properties = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(directory / "logs"),
            "rsm.config.url": (directory / "remote").resolve().as_uri(),
            "group.initial.rebalance.delay.ms": "0",
        }
        self._properties |= properties or {}

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "The node was not started."
        return self._process.pid

    @property
    def output(self) -> str:
        """All that the broker has printed so far."""
        return (self.directory / "console.out").read_text(errors="replace")

    def start(self, timeout_s: float = 60) -> float:
        """Start and wait: seconds from the process's birth to the first Metadata answer."""
        self.directory.mkdir(parents=True, exist_ok=True)
        configuration = self.directory / "server.properties"
        configuration.write_text(
            "".join(f"{name}={value}\n" for name, value in self._properties.items())
        )
        # The installed command stands beside the interpreter that runs this.
        command = [str(Path(sys.executable).with_name("tierlog")), "serve"]
        with (self.directory / "console.out").open("ab") as console:
            self._process = subprocess.Popen(
                [*command, "--config", str(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
                env=_environment(),
            )
        process = self._process
        try:
            return wait_until_up("127.0.0.1", self.port, timeout_s, lambda: process.poll() is None)
        except NotUpError as error:
            error.add_note(self.output[-4000:])
            self.stop(timeout_s=5)
            raise

    def stop(self, timeout_s: float = 40) -> None:
        """Stop cleanly (SIGTERM); a node that does not stop in time is killed."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
