"""A broker in a process of its own: started, asked whether it is up, stopped or killed.

`KafkaNode` and `TierlogNode` say how theirs is started; the rest is the same, so that benchmarks
and tests drive either through the same few names.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from .probe import NotUpError, free_port, wait_until_up


class BrokerNode:
    """One broker on a port of 127.0.0.1 that keeps everything under `directory`.

    A second node on the same directory finds the first one's data.
    """

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "The node was not started."
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether its process was started and runs."""
        return self._process is not None and self._process.poll() is None

    def has_died(self) -> bool:
        """Whether its process was started and ended by itself, neither stopped nor killed by us."""
        return self._process is not None and self._process.poll() is not None

    @property
    def output(self) -> str:
        """All that the broker has printed or logged so far."""
        return (self.directory / "server.log").read_text(errors="replace")

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of that."""
        return "\n".join(self.output.splitlines()[-lines:])

    def command(self, configuration: Path) -> list[str]:
        """What starts the broker with that properties file."""
        raise NotImplementedError

    def prepare(self, configuration: Path) -> None:
        """What must happen once before the broker's first start."""

    def environment(self) -> Mapping[str, str] | None:
        """The broker's environment variables; None: ours."""
        return None

    def properties(self) -> Mapping[str, str]:
        """Its server.properties."""
        raise NotImplementedError

    def start(self, timeout_s: float = 60) -> float:
        """Start and wait: seconds from the process's birth to the first Metadata answer.

        Raises NotUpError, with what the broker said, if that never comes.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        configuration = self.directory / "server.properties"
        lines = [f"{name}={value}\n" for name, value in self.properties().items()]
        configuration.write_text("".join(lines))
        self.prepare(configuration)
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(configuration),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self.environment(),
            )
        process = self._process
        try:
            return wait_until_up("127.0.0.1", self.port, timeout_s, lambda: process.poll() is None)
        except NotUpError as error:
            self.stop(timeout_s=5)
            error.add_note(self.log_tail())
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
        except BaseException:
            # Whoever interrupts the waiting wants it gone at once.
            self.kill()
            raise
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

    def __exit__(self, *_: object) -> None:
        self.stop()
