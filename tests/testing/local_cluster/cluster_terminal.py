"""`tierlog cluster up` as in a terminal of its own."""

import os
import re
import signal
import subprocess
import threading
from pathlib import Path
from typing import Self

from tierlog.bench.harness.processes.tierlog_node import tierlog_command, user_environment
from tierlog.tests.waiting import wait_until

WITHIN_S = 120.0
_READY = re.compile(r"^tierlog \S+ cluster ready on (\S+) in \d+\.\d\d s: \d+ broker")


def is_there(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in ("Z", "X")


class ClusterTerminal:
    """The process, and all that it has printed."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory = directory
        self.lines: list[str] = []
        self._leaves = False
        self.process = subprocess.Popen(
            tierlog_command("cluster", "up", "--dir", str(directory), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=user_environment(),
            start_new_session=True,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            for line in self.process.stdout:
                self.lines.append(line.rstrip("\n"))
                if self._leaves:
                    return

    def _ready(self) -> str:
        matches = (_READY.match(line) for line in list(self.lines))
        return next((match[1] for match in matches if match), "")

    def wait_until_ready(self) -> str:
        """The bootstrap list of the ready line."""

        def is_over() -> bool:
            return bool(self._ready()) or self.process.poll() is not None

        wait_until(is_over, WITHIN_S, lambda: "\n".join(self.lines))
        assert self._ready(), "\n".join(self.lines)
        return self._ready()

    def node_pids(self) -> list[int]:
        """The processes of the nodes: the children of the cluster's."""
        task = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(word) for word in task.read_text().split()]

    def leave(self) -> None:
        """Read one more line, and then close the pipe."""
        self._leaves = True

    def interrupt(self) -> int:
        """Ctrl-C; the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(WITHIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(WITHIN_S)
        self._reader.join(WITHIN_S)
