"""A job on a cluster of two workers, and who kills an executor, a worker and the driver of it."""

import random
from pathlib import Path

from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.tests.pipeline.spark.clusters.driver import TIMEOUT_S, Driver
from tierlog.tests.pipeline.spark.exports_on_disk import row_files
from tierlog.tests.pipeline.spark.spark_cluster import SparkCluster
from tierlog.tests.waiting import wait_until


class KilledJob:
    """A driver, the cluster that it runs on, and the folder below which its rows appear."""

    def __init__(
        self, job: Driver, cluster: SparkCluster, folder: Path, chance: random.Random
    ) -> None:
        self._job = job
        self._cluster = cluster
        self._folder = folder
        self._chance = chance
        self._clock = SystemEnvironment()
        self._began_ms = self._clock.wall_clock_ms()
        self.kills: list[str] = []

    def kill_each(self, times: int) -> None:
        """Kill one of each kind, so often, each in the midst of a job; then wait for the end."""
        for act in [self._kill_an_executor, self._replace_a_worker, self._kill_the_driver] * times:
            self._wait_for_rows()
            act()
        self._job.finish()
        self._say(f"ended after the kills of {', '.join(self.kills)}")
        assert set(self.kills) == {"executor", "worker", "driver"}, "the job ended too early"

    def _say(self, what: str) -> None:
        seconds = (self._clock.wall_clock_ms() - self._began_ms) / 1000
        print(f"{seconds:7.1f} s: {what}", flush=True)

    def _wait_for_rows(self) -> None:
        """Until a task writes, or the job has ended."""
        before = row_files(self._folder)
        wait_until(
            lambda: self._job.has_ended() or bool(row_files(self._folder) - before),
            TIMEOUT_S,
            lambda: self._job.output[-3000:],
        )

    def _killed(self, kind: str) -> None:
        self.kills.append(kind)
        self._say(f"killed: {kind}; {len(row_files(self._folder))} files of rows are there")

    def _kill_an_executor(self) -> None:
        busy = [each for each in self._cluster.workers if each.executors()]
        if busy and self._chance.choice(busy).kill_executors():
            self._killed("executor")

    def _replace_a_worker(self) -> None:
        busy = [each for each in self._cluster.workers if each.executors()]
        if busy and self._cluster.kill_worker(self._chance.choice(busy)):
            self._killed("worker")
        self._cluster.start_worker()

    def _kill_the_driver(self) -> None:
        if self._job.kill():
            self._killed("driver")
        self._job.start()
