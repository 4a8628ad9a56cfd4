"""A Spark cluster of its own: a master and workers, JVMs on loopback, out of pip's PySpark.

Workers can be killed and started again, and so can the executors that they run. Each worker has an
address of its own (127.0.0.1, 127.0.0.2, …): to Spark they are machines, and it gives the copy of a
slow task only to another machine.
"""

import os
import re
import signal
import subprocess
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Self

import pyspark

from tierlog.tests.pipeline.spark.small_spark import SMALL_JVM
from tierlog.tests.waiting import wait_until

HOME = Path(pyspark.__file__).parent
START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 30
ENVIRONMENT = {
    "SPARK_HOME": str(HOME),
    # Or master, worker and whoever asks them would meet at the machine's outer address.
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": SMALL_JVM,
}

_ADDRESS = re.compile(r"Starting Spark master at (spark://\S+)\n")
_REGISTERED = re.compile("Successfully registered with master")
_EXECUTOR = b"CoarseGrainedExecutorBackend"


class SparkWorker:
    """One worker: the process, and the executors that descend from it."""

    def __init__(self, process: subprocess.Popen[bytes], work: Path, said: Path) -> None:
        self._process = process
        self.work = work
        """Where each application has a folder with what its executors said."""
        self.said = said

    def executors(self) -> list[int]:
        """The pids of its executors that run: their working directories are below its own."""
        found: list[int] = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (
                    _EXECUTOR in (process / "cmdline").read_bytes()
                    and (process / "cwd").readlink().is_relative_to(self.work)
                    and "(zombie)" not in (process / "status").read_text()
                ):
                    found.append(int(process.name))
        return sorted(found)

    def kill_executors(self) -> int:
        """Kill what it runs, as the kernel does when memory is short; how many there were."""
        executors = self.executors()
        for pid in executors:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(executors)

    def kill(self) -> int:
        """End it as its machine does, with all that it runs; how many executors it had."""
        self._process.kill()
        self._process.wait(STOP_TIMEOUT_S)
        killed = self.kill_executors()
        wait_until(lambda: not self.executors(), STOP_TIMEOUT_S, "executors outlive SIGKILL")
        return killed

    def is_registered(self) -> bool:
        """Whether the master knows it."""
        return bool(_REGISTERED.search(self.said.read_text()))


class SparkCluster:
    """Runs while it is entered. What it runs finds this very Python and package."""

    def __init__(self, directory: Path, *, workers: int = 1, cores: int = 2) -> None:
        self._directory = directory
        self._size = workers
        self._cores = cores
        self._numbers = count(1)
        self._processes = ExitStack()
        self.workers: list[SparkWorker] = []
        """Those that run."""
        self.master = ""

    @property
    def work(self) -> Path:
        """Where each application has a folder with what its executors said, on any worker."""
        return self._directory / "work"

    def __enter__(self) -> Self:
        with ExitStack() as started:
            self._processes = started
            said, _ = self._start("master", "master.Master", "127.0.0.1")
            self._wait(said, lambda: bool(_ADDRESS.search(said.read_text())))
            self.master = _ADDRESS.findall(said.read_text())[0]
            for _ in range(self._size):
                self.start_worker()
            self._processes = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.close()

    def start_worker(self) -> SparkWorker:
        """One more worker, on an address that no other has had."""
        number = next(self._numbers)
        work = self.work if self._size == 1 else self.work / str(number)
        size = ("--cores", str(self._cores), "--memory", "1g", "--work-dir", str(work))
        said, process = self._start(
            f"worker-{number}", "worker.Worker", f"127.0.0.{number}", *size, self.master
        )
        worker = SparkWorker(process, work, said)
        self._processes.callback(worker.kill)
        self._wait(said, worker.is_registered)
        self.workers.append(worker)
        return worker

    def kill_worker(self, worker: SparkWorker) -> int:
        """Kill it and what it runs; how many executors that were."""
        self.workers.remove(worker)
        return worker.kill()

    def executors(self) -> list[int]:
        """The pids of all that run."""
        return [pid for worker in self.workers for pid in worker.executors()]

    def said_by_executors(self) -> list[str]:
        """What each executor has said, whether it runs or has ended."""
        return [each.read_text() for each in self.work.rglob("app-*/*/stderr")]

    def _wait(self, said: Path, condition: Callable[[], bool]) -> None:
        wait_until(condition, START_TIMEOUT_S, said.read_text)

    def _start(
        self, name: str, role: str, host: str, *arguments: str
    ) -> tuple[Path, subprocess.Popen[bytes]]:
        """Start a part of it; the file of what it says."""
        said = self._directory / f"{name}.log"
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
        command += ["--host", host, "--port", "0", "--webui-port", "0", *arguments]
        with said.open("wb") as out:
            process = subprocess.Popen(
                command, stdout=out, stderr=out, env={**os.environ, **ENVIRONMENT}
            )
        self._processes.callback(process.wait, STOP_TIMEOUT_S)
        self._processes.callback(process.kill)
        return said, process
