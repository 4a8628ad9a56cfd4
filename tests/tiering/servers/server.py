"""A real store in a process of its own that a test may start, stop, freeze and start again.

Each server keeps its port and its data while it is stopped, listens on the loopback address only,
and says which properties point a broker at it. What has to be fetched or built for it is kept under
`~/.cache/tierlog` (or `$XDG_CACHE_HOME`), by a name that changes with the version, so that only the
first run on a machine pays for it; several test workers may ask at once.
"""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tierlog.bench.harness.requests.probe import free_port
from tierlog.tests.waiting import wait_until
from tierlog.tiering.store.remote_url import RemoteUrl, remote_url

FETCH_SECONDS = 1200

PREFIX = "rsm.config."


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """A folder of the cache that `make` fills once; it is there whole or not at all."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tierlog"
    home.mkdir(parents=True, exist_ok=True)
    folder = home / name
    if folder.exists():
        return folder
    with (home / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=home) as directory:
                made = Path(directory) / name
                made.mkdir()
                make(made)
                made.rename(folder)
    return folder


def fetch(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> None:
    """Run what fetches or builds a server."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=FETCH_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


class StoreServer:
    """One store. Subclasses give its command, how to make its root, and the properties."""

    secrets: tuple[str, ...] = ()
    """What must show in no message and no log of the broker."""
    end_signal = signal.SIGKILL

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self._log = directory / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    # What each server says of itself.

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def make_root(self) -> None:
        """Make the bucket, container or folder that the tier's URL names."""
        raise NotImplementedError

    def properties(self) -> dict[str, str]:
        """The lines of server.properties that point a broker here."""
        raise NotImplementedError

    def wrong_credentials(self) -> dict[str, str] | None:
        """The same with credentials that it refuses; None if it looks at none."""
        raise NotImplementedError

    def is_up(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    # What tests do with it.

    @property
    def location(self) -> RemoteUrl:
        return located(self.properties())

    def start(self) -> None:
        """Start it, or start it again with what it had stored."""
        assert self._process is None, "It runs already"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                cwd=self.directory,
                env={**os.environ, **self.environment()},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._is_ready, 90, self.log_tail)

    def _is_ready(self) -> bool:
        process = self._process
        assert process is not None
        assert process.poll() is None, f"The server has ended: {self.log_tail()}"
        return self.is_up()

    def stop(self) -> None:
        """End it: at once, as a crash does, unless it loses what it has said yes to."""
        process, self._process = self._process, None
        if process is not None:
            _signal_all(process.pid, self.end_signal)
            process.wait(30)

    def freeze(self) -> None:
        """Let it accept connections, as its kernel does for it, and answer nothing."""
        assert self._process is not None
        _signal_all(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        if self._process is not None:
            _signal_all(self._process.pid, signal.SIGCONT)

    def log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    def __enter__(self) -> Self:
        try:
            self.start()
            self.make_root()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.thaw()
        self.stop()


def _signal_all(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process and all that descend from it: sshd's leave its process group."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    family = [pid]
    for each in family:
        family += children.get(each, [])
    for each in family:
        with suppress(ProcessLookupError):
            os.kill(each, number)


def located(properties: Mapping[str, str]) -> RemoteUrl:
    """The location that a broker reads from such properties."""
    return remote_url({name.removeprefix(PREFIX): value for name, value in properties.items()})


def program(name: str) -> str:
    """The full path of a program that the test's mark says is there."""
    found = shutil.which(name)
    assert found is not None, name
    return found
