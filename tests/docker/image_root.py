"""The files of the image below a directory, and commands that run there as processes.

Absolute paths of the image become paths below the directory, in the commands and in the image's
own scripts, as far as they have any. Addresses that mean the container itself become one of
127.0.0.0/8, and its `hostname` answers with it. tierlog is that of the environment that runs the
test.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tierlog.tests.docker.compose_processes import placed
from tierlog.tests.docker.image_file import FOLDER, Image
from tierlog.tests.waiting import wait_until

_FOLDERS = ("/etc/kafka", "/etc/confluent/docker", "/opt/kafka", "/usr/local/bin")
_WRITABLE = ("/home/appuser", "/tmp/tierlog", "/mnt/shared/config", "/var/lib/kafka/data")
_LISTENS_EVERYWHERE = FOLDER / "zookeeper.py"
_STOP_WITHIN_S = 90.0
_WITHIN_S = 120.0


class ImageRoot:
    """One container. Use as a context manager: what runs in it is stopped at the end."""

    def __init__(
        self,
        image: Image,
        root: Path,
        address: str,
        files: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> None:
        """`files` are those that are put into it later, `names` further names of its host."""
        self.address = address
        self._root = root
        self._names = re.compile(rf"(?<=[/@])(?:{'|'.join(names)})(?=:\d)") if names else None
        places = (*_FOLDERS, *_WRITABLE, *files)
        self._paths = {"/opt/tierlog": Path(sys.prefix), **{p: root / p[1:] for p in places}}
        for folder in (*_FOLDERS, *_WRITABLE):
            (root / folder[1:]).mkdir(parents=True, exist_ok=True)
        for place, source in image.files.items():
            self._add(place, source)
        (root / "etc/kafka/kafka.properties").symlink_to(root / "tmp/tierlog/server.properties")
        self.put("/usr/local/bin/hostname", f"#!/bin/sh\necho {address}\n", 0o755)
        self._environment = {**image.environment, "KAFKA_TIERLOG_METRICS_HOST": "0.0.0.0"}
        self._process: subprocess.Popen[bytes] | None = None

    def _add(self, place: str, source: Path) -> None:
        target = self._root / place[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.parent == FOLDER / "confluent" or source == _LISTENS_EVERYWHERE:
            self.put(place, source.read_text(), source.stat().st_mode & 0o777)
        else:
            shutil.copy(source, target)

    def put(self, place: str, content: str | bytes, mode: int) -> None:
        """Copy a file into the container, which appears at once with all of its content."""
        target = self._root / place[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(target.name + ".new")
        new.write_bytes(content if isinstance(content, bytes) else self.placed(content).encode())
        new.chmod(mode)
        new.rename(target)

    def placed(self, text: str) -> str:
        """A text of the container, as it is on this machine."""
        text = re.sub(r"://:(?=\d)", f"://{self.address}:", text)
        if self._names is not None:
            text = self._names.sub(self.address, text)
        return placed(text, self.address, {"localhost": self.address}, self._paths)

    def _environment_with(self, stated: Mapping[str, str]) -> dict[str, str]:
        whole = {"HOME": "/tmp/tierlog", **self._environment, **stated}
        return {name: self.placed(value) for name, value in whole.items()}

    def start(self, command: Sequence[str], stated: Mapping[str, str]) -> None:
        """Start the container's command, with further variables."""
        with self._stream("stdout").open("wb") as out, self._stream("stderr").open("wb") as err:
            self._process = subprocess.Popen(
                [self.placed(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self._root / "home/appuser",
                env=self._environment_with(stated),
                start_new_session=True,
            )

    def _stream(self, name: str) -> Path:
        return self._root / name

    @property
    def stdout(self) -> str:
        return self._stream("stdout").read_text(errors="replace")

    @property
    def output(self) -> str:
        return self.stdout + self._stream("stderr").read_text(errors="replace")

    def wait_for_line(self, awaited: re.Pattern[str]) -> None:
        """Wait until a line of stdout matches."""

        def is_there() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"it ended: {self.output}"
            return any(awaited.search(line) for line in self.stdout.splitlines())

        wait_until(is_there, _WITHIN_S, lambda: self.output)

    def execute(self, *command: str) -> tuple[int, str]:
        """Run a command in the container: its exit code and output."""
        environment = self._environment_with({})
        done = subprocess.run(
            [shutil.which(command[0], path=environment["PATH"]) or command[0], *command[1:]],
            capture_output=True,
            text=True,
            env=environment,
            timeout=_WITHIN_S,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def stop(self) -> int:
        """Send SIGTERM to the container's first process, and wait; returns the exit code."""
        process, self._process = self._process, None
        assert process is not None
        process.send_signal(signal.SIGTERM)
        return process.wait(_STOP_WITHIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            # An engine ends all processes of a container, not the first one alone.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
