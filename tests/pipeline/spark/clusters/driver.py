"""A driver as a process of its own, killed with its JVM and begun again."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tierlog.tests.pipeline.spark.clusters.story_size import RECORDS
from tierlog.tests.pipeline.spark.small_spark import SMALL_JVM
from tierlog.tests.pipeline.spark.spark_cluster import ENVIRONMENT
from tierlog.tests.waiting import wait_until

TIMEOUT_S = 480 + RECORDS // 500
"""For its next file of rows, and for its end."""
SETTINGS = {
    "spark.driver.extraJavaOptions": SMALL_JVM,
    "spark.driver.memory": "512m",
    "spark.executor.extraJavaOptions": SMALL_JVM,
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}
"""Of a small session on a cluster."""
CONF = [word for each in SETTINGS.items() for word in ("--conf", "=".join(each))]


class Driver:
    """Python and the JVM that it starts, in a process group of their own."""

    def __init__(
        self, directory: Path, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        scratch = directory / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        self._log = directory / "driver.log"
        self._command = command
        # What is killed does not tidy up.
        self._environment = {
            **os.environ,
            **ENVIRONMENT,
            "TMPDIR": str(scratch),
            **(environment or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def of_module(cls, directory: Path, module: str, *arguments: str) -> Self:
        """A driver that runs a module with this Python."""
        return cls(directory, [sys.executable, "-m", module, *arguments])

    def start(self) -> None:
        """Begin it, or begin it again; its output begins empty."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=self._environment, start_new_session=True
            )

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it has not been started"
        return self._process

    def has_ended(self) -> bool:
        return self._running.poll() is not None

    def kill(self) -> bool:
        """End Python and the JVM at once; whether it was still at work."""
        was_at_work = not self.has_ended()
        with suppress(ProcessLookupError):
            os.killpg(self._running.pid, signal.SIGKILL)
        self._running.wait()
        return was_at_work

    def finish(self) -> None:
        """Wait for its end, which is a good one."""
        wait_until(self.has_ended, TIMEOUT_S, lambda: self.output[-3000:])
        assert self._running.returncode == 0, self.output[-6000:]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
