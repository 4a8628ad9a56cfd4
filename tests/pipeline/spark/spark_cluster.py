"""A Spark cluster of its own: a master and a worker, two JVMs on loopback, out of pip's PySpark."""

import os
import re
import subprocess
from contextlib import ExitStack
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


class SparkCluster:
    """Runs while it is entered. What it runs finds this very Python and package."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes = ExitStack()
        self.master = ""

    @property
    def work(self) -> Path:
        """Where each application has a folder with what its executors said."""
        return self._directory / "work"

    def __enter__(self) -> Self:
        with ExitStack() as started:
            said = self._start(started, "master.Master")
            self._wait(said, _ADDRESS)
            self.master = _ADDRESS.findall(said.read_text())[0]
            size = ("--cores", "2", "--memory", "1g", "--work-dir", str(self.work))
            said = self._start(started, "worker.Worker", *size, self.master)
            self._wait(said, _REGISTERED)
            self._processes = started.pop_all()
        return self

    def _wait(self, said: Path, line: re.Pattern[str]) -> None:
        wait_until(lambda: bool(line.search(said.read_text())), START_TIMEOUT_S, said.read_text)

    def __exit__(self, *_: object) -> None:
        self._processes.close()

    def _start(self, started: ExitStack, role: str, *arguments: str) -> Path:
        """Start a part of it; the file of what it says."""
        said = self._directory / f"{role}.log"
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
        command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments]
        with said.open("wb") as out:
            process = subprocess.Popen(
                command, stdout=out, stderr=out, env={**os.environ, **ENVIRONMENT}
            )
        started.callback(process.wait, STOP_TIMEOUT_S)
        started.callback(process.kill)
        return said
