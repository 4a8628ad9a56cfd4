"""The cost of the tier: copying to it, its effect on producers, and reading it back.

- `copy`: the CPU seconds per gigabyte and MB/s of copying a backlog with no other load;
- `produce beside copying`: the throughput of a producer at full speed, alone and while a backlog is
  copied at a fixed rate, and the loss for each 10 MB/s of copying;
- `catch up …`: reading the same old records from the tier and from the broker's own disk, with one
  consumer and with ten, once from the page cache (hot) and once from the disk (cold). The broker's
  own caches are not dropped.

Brokers do different work for a copy: tierlog syncs every object and its folder, because the local
copy is then deleted, and stores a CRC of each; Kafka's LocalTieredStorage, which is made for tests,
does not.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ...harness.loads.client_process import run_client
from ...harness.measurement_error import MeasurementError
from ...harness.targets.target import RunningTarget, Target
from ...page_cache import drop_page_cache
from ...recorder import Recorder
from ...scenario import Case, Plan, Scale, Scenario
from .old_data import (
    MEBIBYTE,
    RECORD_BYTES,
    OldTopic,
    ensure_old,
    fill,
    has_no_tier,
    knows_its_disk,
    topic_settings,
    wait_until_copied,
)

_UNLIMITED = 2**63 - 1
_BACKLOG_RATE = 50_000_000
"""Bytes per second copied during a produce run: several times 10 MB/s, to exceed the noise."""

_QUOTA = MappingProxyType({"remote.log.manager.copy.quota.window.num": "2"})
"""Makes the quota effective from the first second; by default it applies over eleven seconds."""

_COPY = "copy"
_BESIDE = "produce beside copying"


@dataclass(frozen=True, slots=True)
class _Reading:
    """One way of catching up; several consumers each read a share of the data."""

    consumers: int
    is_cold: bool
    only_full: bool = False


_READINGS = {
    "catch up, 1 consumer, hot": _Reading(1, is_cold=False),
    "catch up, 1 consumer, cold": _Reading(1, is_cold=True),
    "catch up, 10 consumers, hot": _Reading(10, is_cold=False, only_full=True),
    "catch up, 10 consumers, cold": _Reading(10, is_cold=True),
}


@dataclass(frozen=True, slots=True)
class _Size:
    """The amounts at one scale."""

    megabytes: int
    segment_bytes: int
    repeats: int
    warm_up: int

    @property
    def records(self) -> int:
        return self.megabytes * 1_000_000 // RECORD_BYTES


_SIZES: Mapping[Scale, _Size] = MappingProxyType(
    {
        Scale.SMOKE: _Size(8, MEBIBYTE, repeats=1, warm_up=0),
        Scale.SMALL: _Size(120, 16 * MEBIBYTE, repeats=1, warm_up=1),
        Scale.FULL: _Size(400, 64 * MEBIBYTE, repeats=2, warm_up=1),
    }
)


@dataclass(frozen=True, slots=True)
class Theft:
    """A producer's MB/s alone and during copying, and the MB/s copied meanwhile."""

    alone: float
    beside: float
    copied: float

    @property
    def percent_per_10_megabytes(self) -> float:
        """The percentage of throughput lost for each 10 MB/s of copying."""
        lost = 100 * (1 - self.beside / self.alone)
        return lost / (self.copied / 10) if self.copied else 0.0


class Copying:
    """See the top of this file."""

    name = "copying"
    summary = "the cost of copying to the tier, and its effect on producers; reading it back"

    def cases(self, scale: Scale) -> Sequence[Case]:
        reading = [
            Case(name, tiered)
            for name, reading in _READINGS.items()
            if scale is Scale.FULL or not reading.only_full
            for tiered in (False, True)
        ]
        return [*reading, Case(_COPY, tiered=True), Case(_BESIDE, tiered=True)]

    def plan(self, scale: Scale) -> Plan:
        size = _SIZES[scale]
        expected = 1 + (size.warm_up + size.repeats) * (0.2 + size.megabytes / 120)
        return Plan(size.warm_up, size.repeats, "scenario", expected, _QUOTA)

    def refuses(self, case: Case, target: Target) -> str | None:
        return has_no_tier(target) if case.tiered else knows_its_disk(target)

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        size = _SIZES[scale]
        if case.name == _COPY:
            _measure_copy(target, recorder, size)
        elif case.name == _BESIDE:
            theft = _measure_theft(target, recorder.key.run, size)
            recorder.figure("alone_mb_per_s", theft.alone)
            recorder.figure("beside_mb_per_s", theft.beside)
            recorder.figure("copied_mb_per_s", theft.copied)
            recorder.figure("lost_per_10_mb_per_s_percent", theft.percent_per_10_megabytes)
        else:
            _measure_reading(target, recorder, size, case)


def _measure_reading(target: RunningTarget, recorder: Recorder, size: _Size, case: Case) -> None:
    reading = _READINGS[case.name]
    name = "old-in-the-tier" if case.tiered else "old-on-the-disk"
    old = OldTopic(name, size.records, size.segment_bytes, case.tiered)
    ensure_old(target, old)
    if reading.is_cold:
        drop_page_cache(target.directory)
    with recorder.usage(target) as work:
        read = run_client(
            "catch_up",
            *("--bootstrap", target.bootstrap, "--topic", old.name),
            *("--records", str(old.records), "--record-bytes", str(RECORD_BYTES)),
            *("--consumers", str(reading.consumers)),
        )
        work.nbytes = round(read.figures["megabytes"] * 1e6)
    recorder.figure("mb_per_s", read.figures["mb_per_s"])


def _backlog(target: RunningTarget, topic: str, size: _Size) -> int:
    """Fill an untiered topic; returns the bytes that can be copied once it is tiered."""
    from ...harness.requests.admin import create_topic

    create_topic(target.bootstrap, topic, topic_settings(target, False, size.segment_bytes))
    fill(target, topic, size.records)
    return size.records * RECORD_BYTES - size.segment_bytes


def _enable_tiering(target: RunningTarget, topic: str) -> None:
    """Make the broker copy the topic's closed segments from now on."""
    from ...harness.requests.admin import alter_topic

    alter_topic(target.bootstrap, topic, {"remote.storage.enable": "true"})


def _measure_copy(target: RunningTarget, recorder: Recorder, size: _Size) -> None:
    from ...harness.requests.admin import delete_topic

    topic = f"copied-{recorder.key.run}"
    nbytes = _backlog(target, topic, size)
    with recorder.usage(target) as work:
        _enable_tiering(target, topic)
        wait_until_copied(target, topic, 1)
        seconds = wait_until_copied(target, topic, nbytes)
        work.nbytes = target.bytes_in_tier(topic)
    recorder.figure("mb_per_s", work.nbytes / max(seconds, 0.001) / 1e6)
    delete_topic(target.bootstrap, topic)


def _limit_copying(target: RunningTarget, bytes_per_second: int) -> None:
    """Limit the broker's copy rate over all topics (KIP-956)."""
    from ...harness.requests.admin import alter_brokers

    limit = {"remote.log.manager.copy.max.bytes.per.second": str(bytes_per_second)}
    alter_brokers(target.bootstrap, limit)


def _measure_theft(target: RunningTarget, run: int, size: _Size) -> Theft:
    from ...harness.requests.admin import delete_topic

    _limit_copying(target, _BACKLOG_RATE)
    backlog = f"backlog-{run}"
    _backlog(target, backlog, size)
    alone = _produced(target, f"alone-{run}", size)
    _enable_tiering(target, backlog)
    wait_until_copied(target, backlog, 1)
    before, started = target.bytes_in_tier(backlog), time.perf_counter()
    beside = _produced(target, f"beside-{run}", size)
    seconds = time.perf_counter() - started
    copied = (target.bytes_in_tier(backlog) - before) / seconds / 1e6
    delete_topic(target.bootstrap, backlog)
    _limit_copying(target, _UNLIMITED)
    if not copied and size.megabytes > 100:
        raise MeasurementError("nothing was copied while the producer ran")
    return Theft(alone, beside, copied)


def _produced(target: RunningTarget, topic: str, size: _Size) -> float:
    """The MB/s of a producer at full speed."""
    from ...harness.requests.admin import create_topic, delete_topic

    create_topic(target.bootstrap, topic, topic_settings(target, False, size.segment_bytes))
    seconds = fill(target, topic, size.records)
    delete_topic(target.bootstrap, topic)
    return size.records * RECORD_BYTES / seconds / 1e6


SCENARIO: Scenario = Copying()
