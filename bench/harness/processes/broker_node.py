"""A broker in a separate process, which can be started, checked, stopped and killed.

`KafkaNode` and `TierlogNode` define how their broker is started; everything else is the same, so
that benchmarks and tests use either through the same interface.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from ..peers.sasl_listener import with_sasl
from ..peers.tls_listener import TlsIdentity, with_tls
from ..requests.probe import NotUpError, free_port, wait_until_up


class BrokerNode:
    """A broker on a port of 127.0.0.1 that keeps everything under `directory`.

    A second node in the same directory uses the first one's data.
    """

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._tls: tuple[int, TlsIdentity] | None = None
        self._sasl_port: int | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def listen_with_tls(self, identity: TlsIdentity) -> None:
        """Before its start: have a listener with TLS as well."""
        self._tls = free_port(), identity

    def listen_with_sasl(self) -> None:
        """Before its start: have a listener with SASL as well, without TLS."""
        self._sasl_port = free_port()

    @property
    def sasl_bootstrap(self) -> str:
        """HOST:PORT of the listener with SASL."""
        assert self._sasl_port is not None, "The node has no listener with SASL."
        return f"127.0.0.1:{self._sasl_port}"

    @property
    def tls_bootstrap(self) -> str:
        """HOST:PORT of the listener with TLS."""
        assert self._tls is not None, "The node has no listener with TLS."
        return f"127.0.0.1:{self._tls[0]}"

    @property
    def tls_authority(self) -> Path:
        """The PEM file of the authority that issued that listener's certificate."""
        assert self._tls is not None, "The node has no listener with TLS."
        return self._tls[1].authority

    @property
    def pid(self) -> int:
        assert self._process is not None, "The node was not started."
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the broker's process is running."""
        return self._process is not None and self._process.poll() is None

    def has_died(self) -> bool:
        """Whether the broker's process was started and has ended without `stop` or `kill`."""
        return self._process is not None and self._process.poll() is not None

    @property
    def output(self) -> str:
        """Everything that the broker has printed or logged so far."""
        return (self.directory / "server.log").read_text(errors="replace")

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of the output."""
        return "\n".join(self.output.splitlines()[-lines:])

    def command(self, configuration: Path) -> list[str]:
        """The command that starts the broker with this properties file."""
        raise NotImplementedError

    def prepare(self, configuration: Path) -> None:
        """Do what is needed once before the broker's first start."""

    def environment(self) -> Mapping[str, str] | None:
        """The broker's environment variables; None for those of this process."""
        return None

    def properties(self) -> Mapping[str, str]:
        """The broker's server.properties."""
        raise NotImplementedError

    def start(self, timeout_s: float = 180) -> float:
        """Start it; returns the seconds from process creation to the first Metadata response.

        Raises NotUpError, with the end of the broker's log, if it does not respond in time.
        """
        self.spawn()
        return self.wait_until_up(timeout_s)

    def write_properties(self) -> Path:
        """Write the properties file, in a directory that is made if it is missing."""
        self.directory.mkdir(parents=True, exist_ok=True)
        configuration = self.directory / "server.properties"
        properties = self.properties()
        if self._tls is not None:
            properties = with_tls(properties, *self._tls)
        if self._sasl_port is not None:
            properties = with_sasl(properties, self._sasl_port)
        lines = [f"{name}={value}\n" for name, value in properties.items()]
        configuration.write_text("".join(lines))
        return configuration

    def spawn(self) -> None:
        """Create the process, and do not wait for it."""
        configuration = self.write_properties()
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

    def wait_until_up(self, timeout_s: float = 180) -> float:
        """Wait until it answers; returns the seconds that this took. Raises NotUpError."""
        try:
            return self.up(timeout_s)
        except NotUpError as error:
            self.stop(timeout_s=5)
            error.add_note(self.log_tail())
            raise

    def up(self, timeout_s: float) -> float:
        """Seconds until the first Metadata response. Raises NotUpError."""
        return wait_until_up("127.0.0.1", self.port, timeout_s, self.is_alive)

    def stop(self, timeout_s: float = 40) -> None:
        """Stop cleanly (SIGTERM), or kill it if it does not stop in time."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        except BaseException:
            # Interrupted while waiting: end the broker at once.
            self.kill()
            raise
        self._process = None

    def kill(self) -> None:
        """End the process at once (SIGKILL), as in a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
