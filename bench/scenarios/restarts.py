"""Restarts, again and again: do the start's CPU and the metadata log grow with their number?

Every restart is a clean stop and a start to the first answer, and each raises the leader epoch of
every partition: that is what a metadata log grows by. The first and the last tenth of the starts
are compared by their medians; in between, a start costs more the longer the last snapshot of the
metadata is ago, so that the worst one counts as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

from ..harness.loads.partition_load import create_topics
from ..harness.measurement_error import MeasurementError
from ..harness.requests.wire import Wire, topic_id
from ..harness.targets.target import RunningTarget, Target
from ..recorder import MEBIBYTE, Recorder
from ..scenario import Case, Plan, Scale, Scenario
from .idle import cannot_restart, used

_MEGABYTE = 10**6
_METADATA_LOG = "__cluster_metadata-0"
_PROPERTIES = {
    # Little between two snapshots, and a short history of them: what grows without end is to be
    # distinguished from what only grows up to these limits.
    "metadata.log.max.record.bytes.between.snapshots": "2097152",
    "metadata.max.retention.bytes": "8388608",
}
_EXPECTED_S = {Scale.SMOKE: 8.0, Scale.SMALL: 40.0, Scale.FULL: 3_000.0}


@dataclass(frozen=True, slots=True)
class Restarted(Case):
    """A number of partitions, and how often their broker is restarted."""

    partitions: int = 1
    restarts: int = 1


class _Start(NamedTuple):
    """One start: its duration and CPU, the memory after it, and the metadata's size on the disk."""

    seconds: float
    cpu_seconds: float
    resident_bytes: int
    metadata_bytes: int
    snapshots: int


class Restarts:
    """One series of restarts of one broker per run."""

    name = "restarts"
    summary = "many restarts of a broker with many partitions: CPU of a start, metadata on disk"

    def cases(self, scale: Scale) -> Sequence[Case]:
        partitions, restarts = {
            Scale.SMOKE: (100, 5),
            Scale.SMALL: (500, 30),
            Scale.FULL: (10_000, 1_000),
        }[scale]
        name = f"{partitions:,} partitions, {restarts:,} restarts"
        return [Restarted(name, partitions=partitions, restarts=restarts)]

    def plan(self, scale: Scale) -> Plan:
        return Plan(0, 1, "run", expected_seconds=_EXPECTED_S[scale], properties=_PROPERTIES)

    def refuses(self, case: Case, target: Target) -> str | None:
        return cannot_restart(target)

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        assert isinstance(case, Restarted)
        target.start()
        with Wire(target.bootstrap) as wire:
            topics = create_topics(wire, case.partitions, target.topic_config(tiered=False))
        starts = [_restarted(target) for _ in range(case.restarts)]
        with Wire(target.bootstrap) as wire:
            for topic in topics:
                if topic_id(wire, topic.name) != topic.topic_id:
                    raise MeasurementError(f"{topic.name} is another topic now.")
        _record(starts, recorder)


def _restarted(target: RunningTarget) -> _Start:
    target.stop()
    seconds = target.start()
    cpu_s, resident = used(target)
    size, snapshots = _metadata(target.directory / "logs" / _METADATA_LOG)
    return _Start(seconds, cpu_s, resident, size, snapshots)


def _metadata(directory: Path) -> tuple[int, int]:
    """The bytes of the metadata log with its snapshots, and the number of these."""
    size = snapshots = 0
    for file in directory.iterdir():
        try:
            # Blocks, for indexes are long files with holes.
            size += file.stat().st_blocks * 512
        except FileNotFoundError:
            continue
        snapshots += file.suffix == ".checkpoint"
    return size, snapshots


def _record(starts: Sequence[_Start], recorder: Recorder) -> None:
    """The figures of a series of starts."""
    few = max(1, len(starts) // 10)
    first, last = starts[:few], starts[-few:]
    half = len(starts) // 2
    for name, some in (("first", first), ("last", last)):
        recorder.figure(f"{name}_start_s", median(start.seconds for start in some))
        recorder.figure(f"{name}_start_cpu_s", median(start.cpu_seconds for start in some))
        recorder.figure(
            f"{name}_resident_mib", median(start.resident_bytes for start in some) / MEBIBYTE
        )
        recorder.figure(
            f"{name}_metadata_mb", median(start.metadata_bytes for start in some) / _MEGABYTE
        )
    # What grows without end has its worst value in the second half, and a worse one than before.
    for name, some in (("first_half", starts[:half]), ("second_half", starts[half:])):
        recorder.figure(f"worst_of_{name}_cpu_s", max(start.cpu_seconds for start in some))
        recorder.figure(
            f"worst_of_{name}_metadata_mb", max(start.metadata_bytes for start in some) / _MEGABYTE
        )
    recorder.figure("snapshots_count", starts[-1].snapshots)


SCENARIO: Scenario = Restarts()
