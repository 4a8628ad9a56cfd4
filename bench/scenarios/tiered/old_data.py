"""Topics with old data in the tier or on the broker's own disk, and checks of where it is.

Shared by the scenarios of tiered storage: a topic is filled at full speed. If it is tiered, they
wait until all but its last segment has left the disk, so that consumers read from the tier. Both
kinds exist next to each other at one broker, and are kept for later runs.
"""

import time
from dataclasses import dataclass

from ...harness.loads.load import Load
from ...harness.measurement_error import MeasurementError
from ...harness.processes.live_files import live_paths, size_of
from ...harness.targets.target import RunningTarget, Target
from ...page_cache import write_back
from ..client_runs import fill_topic

MEBIBYTE = 1 << 20
RECORD_BYTES = 1024
BATCH_BYTES = 131_072
_WAIT_S = 180.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class OldTopic:
    """A topic with old records; if it is tiered, they leave the disk."""

    name: str
    records: int
    segment_bytes: int
    tiered: bool

    @property
    def total_bytes(self) -> int:
        return self.records * RECORD_BYTES


def topic_settings(target: RunningTarget, tiered: bool, segment_bytes: int) -> dict[str, str]:
    """The settings of a topic that retains all records, on the disk too, even if copied."""
    return {**target.topic_config(tiered), "segment.bytes": str(segment_bytes)}


def fill(target: RunningTarget, topic: str, records: int) -> float:
    """Produce at full speed; returns the seconds it took."""
    load = Load(records, RECORD_BYTES, batch_bytes=BATCH_BYTES)
    return fill_topic(target.bootstrap, topic, load).figures["seconds"]


def ensure_old(target: RunningTarget, old: OldTopic) -> None:
    """Create the topic, unless an earlier run did; wait until its data is in the right place."""
    from ...harness.requests.admin import create_topic, holds

    if holds(target.bootstrap, old.name, old.records):
        return
    settings = topic_settings(target, old.tiered, old.segment_bytes)
    if old.tiered:
        # Copied segments leave the disk as soon as possible.
        settings["local.retention.bytes"] = "1"
    create_topic(target.bootstrap, old.name, settings)
    fill(target, old.name, old.records)
    write_back()
    if old.tiered:
        wait_until_local_is_small(target, old.name, old.segment_bytes)


def knows_its_disk(target: Target) -> str | None:
    """The reason why a target's disk cannot be inspected; None if it can."""
    if "start" not in target.capabilities:
        return "only the disk of a broker that the harness starts can be inspected"
    return None


def has_no_tier(target: Target) -> str | None:
    """The reason why a tiered case cannot be measured at a target; None if it can."""
    if "tier" not in target.capabilities:
        return f"{target.name} has no remote tier"
    return knows_its_disk(target)


def local_bytes(target: RunningTarget, topic: str) -> int:
    """The bytes of the topic's log on the broker's own disk."""
    assert target.node is not None, "a broker elsewhere was refused"
    return size_of(live_paths(target.node.directory / "logs", f"{topic}-*/*.log"))


def wait_until_copied(target: RunningTarget, topic: str, nbytes: int) -> float:
    """Wait until `nbytes` are in the tier; returns the seconds. Raises MeasurementError."""
    started = time.perf_counter()
    while target.bytes_in_tier(topic) < nbytes:
        _look_again(started, f"{topic} is not in the tier after {_WAIT_S:g} s")
    return time.perf_counter() - started


def wait_until_local_is_small(target: RunningTarget, topic: str, segment_bytes: int) -> None:
    """Wait until only the active segment is on the disk. Raises MeasurementError."""
    started = time.perf_counter()
    while local_bytes(target, topic) > segment_bytes:
        _look_again(started, f"{topic} has not left the disk after {_WAIT_S:g} s")


def _look_again(started: float, message: str) -> None:
    if time.perf_counter() - started > _WAIT_S:
        raise MeasurementError(message)
    time.sleep(_POLL_S)
