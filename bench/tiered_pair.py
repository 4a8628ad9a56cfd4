"""tierlog and Apache Kafka side by side, each with a tier in a directory of the same disk.

What the benchmarks of tiering ask of either: topics in the tier and beside it, tiering switched on
for what is already there, how much of it has been copied, how fast copying may be.
"""

import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from confluent_kafka import admin as client

from .broker_node import BrokerNode
from .kafka_peer import KafkaNode
from .report import MEBIBYTE
from .tierlog_node import TierlogNode

if TYPE_CHECKING:
    from concurrent.futures import Future

SEGMENT_BYTES = 16 * MEBIBYTE
_WAIT_SECONDS = 180.0

UNTIERED = {
    "segment.bytes": str(SEGMENT_BYTES),
    "retention.ms": "-1",
    "file.delete.delay.ms": "1000",
}
TIERED = {**UNTIERED, "remote.storage.enable": "true", "local.retention.bytes": "1"}
"""What is in the tier leaves the disk as soon as it may."""

KEPT_HERE = {**UNTIERED, "remote.storage.enable": "true"}
"""Copied, and kept here as well."""

_OFTEN = {
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "remote.log.manager.task.interval.ms": "1000",
    # A quota holds from the first second on, instead of over the eleven that are the default.
    "remote.log.manager.copy.quota.window.num": "2",
}


@contextmanager
def tiered_pair(scratch: Path) -> Generator[dict[str, BrokerNode], None, None]:
    """Both brokers, up and with nothing done before."""
    ours = TierlogNode(scratch / "tierlog", properties=_OFTEN)
    theirs = KafkaNode(scratch / "kafka", tiered=True, properties=_OFTEN)
    with ours, theirs:
        yield {"tierlog": ours, "Kafka": theirs}


def _alter(node: BrokerNode, kind: str, name: str, settings: dict[str, str]) -> None:
    # The client's admin module exports these, and its annotations forget to say so.
    entry_class = client.ConfigEntry  # type: ignore[attr-defined]  # pyright: ignore[reportPrivateImportUsage]
    operation = client.AlterConfigOpType.SET  # type: ignore[attr-defined]  # pyright: ignore[reportPrivateImportUsage]
    resource_class = client.ConfigResource  # type: ignore[attr-defined]  # pyright: ignore[reportPrivateImportUsage]
    entries = [entry_class(*each, incremental_operation=operation) for each in settings.items()]
    admin = client.AdminClient({"bootstrap.servers": node.bootstrap})
    resource = resource_class(kind, name, incremental_configs=entries)
    # The client publishes its futures without the type of what they hold.
    answers = admin.incremental_alter_configs([resource])  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    for answer in cast("dict[object, Future[None]]", answers).values():
        answer.result(30)


def enable_tiering(node: BrokerNode, topic: str) -> None:
    """Let a topic that is here go to the tier: its closed segments are what there is to copy."""
    _alter(node, "topic", topic, {"remote.storage.enable": "true"})


def limit_copying(node: BrokerNode, bytes_per_second: int) -> None:
    """How fast the broker may copy from now on, all topics together (KIP-956)."""
    limit = {"remote.log.manager.copy.max.bytes.per.second": str(bytes_per_second)}
    (broker_id,) = (
        client.AdminClient({"bootstrap.servers": node.bootstrap}).list_topics(timeout=30).brokers
    )
    _alter(node, "broker", str(broker_id), limit)


def bytes_in_tier(node: BrokerNode, topic: str) -> int:
    """How much of the topic's log lies in the tier, looked up in its directory."""
    return _size_of(
        path
        for path in (node.directory / "remote").rglob("*")
        if topic in str(path.parent) and path.suffix == ".log"
    )


def _size_of(paths: Iterable[Path]) -> int:
    total = 0
    for path in paths:
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            # Renamed or deleted since it was listed: the next look counts it.
            continue
    return total


def local_bytes(node: BrokerNode, topic: str) -> int:
    """How much of the topic's log is on the broker's own disk."""
    return _size_of((node.directory / "logs").glob(f"{topic}-0/*.log"))


def wait_until_copied(node: BrokerNode, topic: str, nbytes: int) -> float:
    """Wait until so much is in the tier; the seconds it took. Raises RuntimeError after minutes."""
    started = time.perf_counter()
    while bytes_in_tier(node, topic) < nbytes:
        if time.perf_counter() - started > _WAIT_SECONDS:
            raise RuntimeError(f"{topic} is not in the tier; the broker says:\n{node.log_tail()}")
        time.sleep(0.02)
    return time.perf_counter() - started


def wait_until_local_is_small(node: BrokerNode, topic: str) -> None:
    """Wait until only the active segment is here. Raises RuntimeError after minutes."""
    started = time.perf_counter()
    while local_bytes(node, topic) > SEGMENT_BYTES:
        if time.perf_counter() - started > _WAIT_SECONDS:
            raise RuntimeError(f"{topic} does not leave the disk:\n{node.log_tail()}")
        time.sleep(0.1)
