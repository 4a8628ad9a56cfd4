"""A target that the harness starts as one process."""

import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ..broker_node import BrokerNode
from ..process_usage import Usage, read_usage

SEGMENT_BYTES = 256 << 20
_UP_WITHIN_S = 600.0
_DOWN_WITHIN_S = 300.0
"""A JVM with ten thousand partitions takes minutes for either; how long it took is a figure."""

DELETE_DELAY_MS = "1000"
"""So that what a run has left behind is gone before it can be in the way of many others."""

OFTEN = {
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "remote.log.manager.task.interval.ms": "1000",
}
"""So that segments go to the tier, and from the disk, while a run lasts."""


@dataclass(frozen=True, slots=True)
class OneNode:
    """One broker process, as a scenario sees it. Its tier is looked at by `measure_tier(topic)`."""

    name: str
    directory: Path
    node: BrokerNode
    measure_tier: Callable[[str], int]
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
    """Nothing expires; what is deleted is gone soon, so that it does not fill the disk."""
    config = {
        "segment.bytes": str(SEGMENT_BYTES),
        "retention.ms": "-1",
        "file.delete.delay.ms": DELETE_DELAY_MS,
    }
    return {**config, "remote.storage.enable": "true"} if tiered else config


def size_of(paths: Iterable[Path]) -> int:
    """Bytes of files of which some may go meanwhile."""
    total = 0
    for path in paths:
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            # Renamed or deleted since it was listed: the next look counts it.
            continue
    return total


def logs_of_topic(tier: Path, topic: str) -> Iterable[Path]:
    """The topic's segments in a tier that is a folder: `<topic>-<partition>-<topic id>/*.log`,
    ours and LocalTieredStorage's alike.
    """
    folder = re.compile(rf"{re.escape(topic)}-\d+-.{{22}}")
    return (path for path in tier.rglob("*.log") if folder.fullmatch(path.parent.name))
