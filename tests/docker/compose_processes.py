"""The services of a compose file of docker/ as processes, for a machine that has no engine.

Each process gets the environment, command and health check of its service, and nothing of the
environment of the test. What stands for what a container has of its own:

- An address: each service has one of 127.0.0.0/8, and the host one, from a range that depends on
  the process id. Names of services and `localhost` become these; `0.0.0.0` and `127.0.0.1`, which
  in a container mean itself, become the service's own. Ports stay as they are.
- A file system: volumes and what else the image has are folders below one directory, the image's
  scripts are those of docker/, and its `/opt/tierlog` is the environment that runs the test.
- A published port: a forwarder at the host's address.
- The program of another image: the Versity gateway, built at the version of the image's tag.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tierlog.tests.docker.compose_file import Service
from tierlog.tests.docker.image_file import Image
from tierlog.tests.docker.published_ports import PublishedPorts
from tierlog.tests.tiering.servers.s3 import VERSITYGW, versitygw
from tierlog.tests.waiting import wait_until

UP_WITHIN_S = 180.0
_STOP_WITHIN_S = 90.0
_CHECK_WITHIN_S = 60.0
_FIRST_SERVICE = 11
_OWN = ("0.0.0.0", "127.0.0.1")
_S3_IMAGE = "ghcr.io/versity/versitygw:" + VERSITYGW.rpartition("@")[2]


def addresses(names: Sequence[str], number: int) -> dict[str, str]:
    """An address for the host, which is called localhost, and for each service."""
    network = f"127.{64 + (number >> 8) % 64}.{number % 256}"
    hosts = {name: f"{network}.{at}" for at, name in enumerate(names, _FIRST_SERVICE)}
    return {"localhost": f"{network}.1", **hosts}


def placed(text: str, own: str, hosts: Mapping[str, str], paths: Mapping[str, Path]) -> str:
    """The text with addresses for host names and folders of this machine for paths."""
    table = {**hosts, **dict.fromkeys(_OWN, own)}
    names = "|".join(map(re.escape, table))
    text = re.sub(rf"(?<![\w.-])(?:{names})(?![\w.-])", lambda match: table[match[0]], text)
    ordered = "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    pattern = rf"(?<![\w/.-])(?:{ordered})(?![\w.-])"
    return re.sub(pattern, lambda match: str(paths[match[0]]), text) if paths else text


class Container:
    """One service as a process that can be stopped and started again."""

    def __init__(
        self, service: Service, image: Image | None, directory: Path, hosts: Mapping[str, str]
    ) -> None:
        """`image` is ours, or None for that of the S3 server."""
        self.service = service
        self.address = hosts[service.name]
        self._image = image
        self._hosts = hosts
        self._directory = directory / service.name
        self._directory.mkdir(parents=True)
        volumes = {path: directory / "volumes" / name for path, name in service.volumes.items()}
        for folder in volumes.values():
            folder.mkdir(parents=True, exist_ok=True)
        self._paths = {**volumes, **(self._image_paths(image) if image else {})}
        self._log = self._directory / "output.log"
        self._process: subprocess.Popen[bytes] | None = None

    def _image_paths(self, image: Image) -> dict[str, Path]:
        programs = self._directory / "bin"
        programs.mkdir()
        paths = {"/opt/tierlog": Path(sys.prefix), "/usr/local/bin": programs}
        for place, source in image.files.items():
            target = Path(place)
            if target.parent == Path("/usr/local/bin"):
                (programs / target.name).symlink_to(source)
            else:
                paths[place] = source
        for name in ("TIERLOG_CONFIG_DIR", "TIERLOG_MOUNTED_CONFIG_DIR"):
            paths[image.environment[name]] = self._directory / name.lower()
        return paths

    @property
    def environment(self) -> dict[str, str]:
        """What the process gets: the image's variables, then those of the service."""
        stated = {**(self._image.environment if self._image else {}), **self.service.environment}
        inherited = {} if "PATH" in stated else {"PATH": "/usr/local/bin:/usr/bin:/bin"}
        placed_values = {name: self._placed(value) for name, value in stated.items()}
        return {**inherited, "HOME": str(self._directory), **placed_values}

    @property
    def command(self) -> list[str]:
        if self._image is None:
            assert self.service.image == _S3_IMAGE, "another version than the one that is built"
            return [str(versitygw()), *map(self._placed, self.service.command)]
        return self._found([*(self.service.command or self._image.command)])

    def _found(self, command: Sequence[str]) -> list[str]:
        """A command with its program looked up on the container's own PATH."""
        program, *arguments = map(self._placed, command)
        for folder in self.environment["PATH"].split(":"):
            if (Path(folder) / program).exists():
                return [str(Path(folder) / program), *arguments]
        raise AssertionError(f"{program} is not in {self.environment['PATH']}")

    def _placed(self, text: str) -> str:
        return placed(text, self.address, self._hosts, self._paths)

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        assert self._process is None, f"{self.service.name} runs already"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._directory,
                env=self.environment,
                start_new_session=True,
            )

    def execute(self, command: Sequence[str], within_s: float = _CHECK_WITHIN_S) -> tuple[int, str]:
        """Run a command in the container, as `docker exec` does: its exit code and output."""
        done = subprocess.run(
            self._found(command),
            capture_output=True,
            text=True,
            cwd=self._directory,
            env=self.environment,
            timeout=within_s,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def wait_until_healthy(self) -> None:
        """Wait until its health check says yes."""
        wait_until(self._is_healthy, UP_WITHIN_S, lambda: f"{self.service.name}: {self.log_tail()}")

    def _is_healthy(self) -> bool:
        assert self._process is not None
        ended = self._process.poll()
        assert ended is None, f"{self.service.name} ended with {ended}: {self.log_tail()}"
        return self.execute(self.service.health)[0] == 0

    def wait_until_completed(self) -> None:
        """Wait until it ends with exit code 0."""
        assert self._process is not None
        assert self._process.wait(UP_WITHIN_S) == 0, self.log_tail()
        self._process = None

    def stop(self) -> int:
        """Stop it as an engine does, and wait; returns the exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(signal.Signals[self.service.stop_signal])
        try:
            return process.wait(_STOP_WITHIN_S)
        except BaseException:
            process.kill()
            process.wait()
            raise

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def log_tail(self) -> str:
        return self.output[-3000:]


class Composed:
    """All services, started in the order of their conditions. Use as a context manager."""

    def __init__(self, services: Mapping[str, Service], image: Image, directory: Path) -> None:
        self._directory = directory
        self._hosts = addresses(list(services), os.getpid())
        self.containers = {
            name: Container(
                service, None if "versitygw" in service.image else image, directory, self._hosts
            )
            for name, service in services.items()
        }
        self._ports = PublishedPorts(
            {
                (self._hosts["localhost"], each.host_port): (container.address, each.port)
                for container in self.containers.values()
                for each in container.service.published
            }
        )
        self._open = ExitStack()

    def __getitem__(self, name: str) -> Container:
        return self.containers[name]

    @property
    def brokers(self) -> list[Container]:
        return [each for each in self.containers.values() if each.service.published]

    @property
    def bootstrap(self) -> list[str]:
        """What clients on the host name, a broker each."""
        host = self._hosts["localhost"]
        return [f"{host}:{each.service.published[0].host_port}" for each in self.brokers]

    def volume(self, name: str) -> Path:
        return self._directory / "volumes" / name

    def __enter__(self) -> Self:
        self._open.enter_context(self._ports)
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start_all(self) -> None:
        started: set[str] = set()
        while len(started) < len(self.containers):
            ready = [
                each
                for name, each in self.containers.items()
                if name not in started and started >= each.service.after.keys()
            ]
            assert ready, "services that wait for each other"
            for container in ready:
                for other, condition in container.service.after.items():
                    if condition == "service_healthy":
                        self[other].wait_until_healthy()
                    else:
                        assert condition == "service_completed_successfully", condition
                        # Several services may wait for the same one.
                        if self[other].is_running:
                            self[other].wait_until_completed()
                container.start()
            started |= {each.service.name for each in ready}
        for container in self.containers.values():
            if container.service.health:
                container.wait_until_healthy()

    def __exit__(self, *_: object) -> None:
        for container in self.containers.values():
            container.kill()
        self._open.close()
