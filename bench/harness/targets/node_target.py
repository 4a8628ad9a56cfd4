"""The common part of targets that the harness starts as one process."""

import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ..processes.broker_node import BrokerNode
from ..processes.live_files import live_paths
from ..processes.process_usage import Usage, read_usage

SEGMENT_BYTES = 256 << 20
_UP_WITHIN_S = 600.0
_DOWN_WITHIN_S = 300.0
"""A JVM with ten thousand partitions takes minutes to start or stop, and this time is measured."""

DELETE_DELAY_MS = "1000"
"""Short, so that a run's deleted files do not affect many later runs."""

OFTEN = {
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "remote.log.manager.task.interval.ms": "1000",
}
"""Short intervals, so that segments are copied and deleted locally during a run."""


@dataclass(frozen=True, slots=True)
class OneNode:
    """One broker process. `measure_tier(topic)` returns the topic's bytes in its tier."""

    name: str
    directory: Path
    node: BrokerNode
    measure_tier: Callable[[str], int] = lambda topic: 0
    remove_tier: Callable[[], None] = lambda: None
    takes_config: bool = True

    @property
    def bootstrap(self) -> str:
        return self.node.bootstrap

    def start(self) -> float:
        return self.node.start(_UP_WITHIN_S)

    def stop(self) -> None:
        self.node.stop(_DOWN_WITHIN_S)

    def kill(self) -> None:
        self.node.kill()

    def is_alive(self) -> bool:
        return self.node.is_alive()

    def pids(self) -> tuple[int, ...]:
        return (self.node.pid,) if self.node.is_alive() else ()

    def usage(self) -> Usage | None:
        return read_usage(self.node.pid)

    def topic_config(self, tiered: bool) -> dict[str, str]:
        if not self.takes_config:
            return {}
        return topic_config(tiered)

    def bytes_in_tier(self, topic: str) -> int:
        return self.measure_tier(topic)

    def log_tail(self) -> str:
        return self.node.log_tail()

    def discard(self) -> None:
        self.remove_tier()
        shutil.rmtree(self.directory, ignore_errors=True)


def topic_config(tiered: bool) -> dict[str, str]:
    """The settings of a topic that never expires; deleted files are removed soon."""
    config = {
        "segment.bytes": str(SEGMENT_BYTES),
        "retention.ms": "-1",
        "file.delete.delay.ms": DELETE_DELAY_MS,
    }
    return {**config, "remote.storage.enable": "true"} if tiered else config


def logs_of_topic(tier: Path, topic: str) -> Iterable[Path]:
    """The topic's segments in a local tier: `<topic>-<partition>-<topic id>/*.log`.

    tierlog and LocalTieredStorage both use this layout.
    """
    folder = re.compile(rf"{re.escape(topic)}-\d+-.{{22}}")
    logs = live_paths(tier, "**/*.log")
    return (path for path in logs if folder.fullmatch(path.parent.name))
