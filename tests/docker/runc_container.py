"""Containers of the image, by runc: with namespaces, a root file system and a network of their own.

What an engine adds is added here. A file system above the image's takes what the container writes.
The network has a loopback interface and nothing else; `hostname` names one of its addresses. A
port is published by a forwarder at an address of this machine, whose sockets to the container are
made in the container's network.
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from tierlog.tests.docker.built_image import BuiltImage
from tierlog.tests.docker.published_ports import PublishedPorts
from tierlog.tests.docker.testcontainers.library import ALIAS
from tierlog.tests.waiting import wait_until

OWN_ADDRESS = "127.0.1.1"
"""That of the container, in its own network."""
NAME = ALIAS
"""Its name there."""
HOST = "127.0.0.1"
_WITHIN_S = 120.0
_HOSTS = f"127.0.0.1 localhost\n{OWN_ADDRESS} {NAME}\n"
_MOUNTS = (
    ("/proc", "proc", "proc", ()),
    ("/dev", "tmpfs", "tmpfs", ("nosuid", "mode=755", "size=65536k")),
    ("/dev/shm", "tmpfs", "shm", ("nosuid", "noexec", "nodev", "mode=1777", "size=65536k")),
)
_NAMESPACES = ("pid", "network", "ipc", "uts", "mount")


class Stopped(NamedTuple):
    """How a container ended."""

    code: int
    took_s: float


class Volume(NamedTuple):
    """A folder of this machine that a container has, by its place there."""

    source: Path
    target: str
    is_read_only: bool = False

    def mount(self) -> dict[str, object]:
        options = ["bind", "ro" if self.is_read_only else "rw"]
        return _mount(self.target, "bind", str(self.source), options)


def _mount(target: str, kind: str, source: str, options: Sequence[str]) -> dict[str, object]:
    return {"destination": target, "type": kind, "source": source, "options": list(options)}


def new_volume(folder: Path, image: BuiltImage) -> Path:
    """A folder that belongs to the image's user, as an engine makes a volume that is new."""
    folder.mkdir()
    os.chown(folder, *image.settings.user)
    return folder


class RuncContainer:
    """One container. Use as a context manager: it starts at once, and is gone at the end."""

    def __init__(
        self,
        image: BuiltImage,
        folder: Path,
        environment: Mapping[str, str],
        command: Sequence[str] = (),
        *,
        volumes: Sequence[Volume] = (),
        is_read_only: bool = False,
    ) -> None:
        """`folder` is new; without a command the image's own runs. A read-only one has a /tmp."""
        for name in ("upper", "work", "root", "state"):
            (folder / name).mkdir(parents=True)
        self._image = image
        self._folder = folder
        self._runc = ["runc", "--root", str(folder / "state")]
        self._id = f"tierlog-{os.getpid()}-{folder.name}"
        stated = [*image.settings.environment, *(f"{n}={environment[n]}" for n in environment)]
        mounts = [_mount(*each) for each in _MOUNTS] + [each.mount() for each in volumes]
        if is_read_only:
            mounts.append(_mount("/tmp", "tmpfs", "tmpfs", ("nosuid", "nodev", "mode=1777")))
        self._config = _config(image, command, stated, mounts, is_read_only)
        self._process: subprocess.Popen[bytes] | None = None
        self._ports: PublishedPorts | None = None

    def __enter__(self) -> Self:
        folder = self._folder
        layers = f"lowerdir={self._image.root},upperdir={folder}/upper,workdir={folder}/work"
        _call(["mount", "-t", "overlay", "overlay", "-o", layers, str(folder / "root")])
        (folder / "root/etc/hosts").write_text(_HOSTS)
        (folder / "config.json").write_text(json.dumps(self._config))
        run = ["run", "--bundle", str(folder), "--pid-file", str(folder / "pid"), self._id]
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            self._process = subprocess.Popen(
                [*self._runc, *run], stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._ports is not None:
            self._ports.__exit__()
        subprocess.run(
            [*self._runc, "delete", "--force", self._id],
            capture_output=True,
            timeout=_WITHIN_S,
            check=False,
        )
        assert self._process is not None
        self._process.wait(_WITHIN_S)
        _call(["umount", str(self._folder / "root")])

    def _network(self) -> Path:
        pid = self._folder / "pid"
        self.wait_until(lambda: pid.exists() and pid.read_text() != "")
        return Path(f"/proc/{pid.read_text()}/ns/net")

    @contextmanager
    def neighbour(self, command: Sequence[str], environment: Mapping[str, str]) -> Generator[None]:
        """A program of this machine runs in the container's network."""
        process = subprocess.Popen(
            ["nsenter", f"--net={self._network()}", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )
        try:
            yield
        finally:
            process.kill()
            process.wait(_WITHIN_S)

    def from_next_to_it(self, program: str) -> str:
        """What a Python program of this machine prints that runs in the container's network."""
        done = subprocess.run(
            ["nsenter", f"--net={self._network()}", sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=_WITHIN_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def publish(self, ports: Mapping[int, int]) -> None:
        """Let ports of this machine lead to ports of the container."""
        network = self._network()
        routes = {(HOST, ours): ("127.0.0.1", theirs) for ours, theirs in ports.items()}
        self._ports = PublishedPorts(routes, lambda: _socket_in(network))
        self._ports.__enter__()

    def put(self, place: str, content: str | bytes, mode: int) -> None:
        """Copy a file of root's into the container, as an engine does: it is there at once."""
        target = self._folder / "root" / place[1:]
        new = target.with_name(target.name + ".new")
        new.write_bytes(content.encode() if isinstance(content, str) else content)
        new.chmod(mode)
        new.rename(target)

    def execute(self, *command: str) -> tuple[int, str]:
        """Run a command in the container, as its user: its exit code and output."""
        done = subprocess.run(
            [*self._runc, "exec", self._id, *command],
            capture_output=True,
            text=True,
            timeout=_WITHIN_S,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def stop(self) -> Stopped:
        """Send the image's signal to the first process, and wait for the end."""
        begin = time.monotonic()
        _call([*self._runc, "kill", self._id, self._image.settings.stop_signal])
        return Stopped(self.wait(), time.monotonic() - begin)

    def wait(self) -> int:
        """Wait for the end of the first process; returns its exit code."""
        assert self._process is not None
        return self._process.wait(_WITHIN_S)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds while the container runs."""

        def holds() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"It ended: {self.output}"
            return condition()

        wait_until(holds, _WITHIN_S, lambda: self.output)

    @property
    def stdout(self) -> str:
        return (self._folder / "stdout").read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return (self._folder / "stderr").read_text(errors="replace")

    @property
    def output(self) -> str:
        return (self.stdout + self.stderr)[-4000:]


def _config(
    image: BuiltImage,
    command: Sequence[str],
    environment: Sequence[str],
    mounts: Sequence[object],
    is_read_only: bool,
) -> dict[str, Any]:
    """The runtime's own file. No capability is granted, as in docker/compose.yaml."""
    uid, gid = image.settings.user
    process = {
        "terminal": False,
        "user": {"uid": uid, "gid": gid},
        "args": list(command or image.settings.command),
        "env": environment,
        "cwd": image.settings.folder,
        "noNewPrivileges": True,
    }
    return {
        "ociVersion": "1.0.0",
        "process": process,
        "root": {"path": "root", "readonly": is_read_only},
        "hostname": NAME,
        "mounts": mounts,
        "linux": {"namespaces": [{"type": each} for each in _NAMESPACES]},
    }


def _call(words: Sequence[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=_WITHIN_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _socket_in(network: Path) -> socket.socket:
    """A socket of another network: one belongs for good to the network that it is made in."""
    libc = ctypes.CDLL(None, use_errno=True)
    ours, theirs = (os.open(path, os.O_RDONLY) for path in ("/proc/thread-self/ns/net", network))
    try:
        _enter(libc, theirs)
        try:
            made = socket.socket()
        finally:
            _enter(libc, ours)
    finally:
        os.close(ours)
        os.close(theirs)
    made.setblocking(False)
    return made


def _enter(libc: ctypes.CDLL, network: int) -> None:
    if libc.setns(network, 0) != 0:
        raise OSError(ctypes.get_errno(), "The thread cannot enter the network.")
