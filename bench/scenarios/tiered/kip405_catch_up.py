"""KIP-405, test case 2: consumers that are far behind catch up during normal load.

They read old data, from the tier or from the broker's own disk, at six times the producers' rate,
as in the KIP: `catch_up_mb_per_s` shows whether they reached it. What matters is the effect on the
producers and on the consumer at the end of the log. `copying` measures how fast catching up can be.

The KIP's own figures, for nine such consumers and 180 MB/s per broker: produce p99 of 42 ms tiered
and 60 ms untiered with acks=all, 10 ms and 10 ms with acks=1. There the untiered consumers competed
with producers for hard disks; here the page cache serves both kinds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ...harness.loads.client_process import start_client
from ...harness.targets.target import RunningTarget, Target
from ...recorder import Recorder
from ...scenario import Case, Plan, Scale, Scenario
from .old_data import (
    MEBIBYTE,
    RECORD_BYTES,
    OldTopic,
    ensure_old,
    has_no_tier,
    knows_its_disk,
    topic_settings,
)
from .traffic import WARM_UP_S, WORKLOADS, traffic

_CONSUMERS = 9
_TIMES_PRODUCERS = 6


@dataclass(frozen=True, slots=True)
class _Size:
    """The workloads, the amount of old data, and the length and number of runs at one scale."""

    workloads: tuple[str, ...]
    megabytes: int
    seconds: float
    warm_up: int
    repeats: int
    segment_bytes: int

    @property
    def records(self) -> int:
        return self.megabytes * 1_000_000 // RECORD_BYTES


_SIZES: Mapping[Scale, _Size] = MappingProxyType(
    {
        Scale.SMOKE: _Size(("acks=1",), 8, 1.5, warm_up=0, repeats=1, segment_bytes=MEBIBYTE),
        Scale.SMALL: _Size(("acks=all",), 150, 4, warm_up=1, repeats=1, segment_bytes=4 * MEBIBYTE),
        Scale.FULL: _Size(
            tuple(WORKLOADS), 500, 10, warm_up=1, repeats=2, segment_bytes=16 * MEBIBYTE
        ),
    }
)


class CatchUp:
    """Test case 2; see the top of this file."""

    name = "kip405_catch_up"
    summary = "KIP-405 case 2: nine consumers read old data, local or tiered, beside normal load"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return [Case(name, tiered) for name in _SIZES[scale].workloads for tiered in (False, True)]

    def plan(self, scale: Scale) -> Plan:
        size = _SIZES[scale]
        runs = size.warm_up * (size.seconds / 2 + 2) + size.repeats * (size.seconds + 2)
        expected = runs + size.megabytes / 50
        return Plan(size.warm_up, size.repeats, "scenario", expected)

    def refuses(self, case: Case, target: Target) -> str | None:
        return has_no_tier(target) if case.tiered else knows_its_disk(target)

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        from ...harness.requests.admin import create_topic, delete_topic

        size, workload = _SIZES[scale], WORKLOADS[case.name]
        # A warm-up run need not be as long.
        seconds = size.seconds if recorder.key.run > 0 else size.seconds / 2
        kind = "tiered" if case.tiered else "untiered"
        old = OldTopic(f"old-{kind}", size.records, size.segment_bytes, case.tiered)
        ensure_old(target, old)
        topic = f"live-{workload.acks}-{kind}-{recorder.key.run}"
        settings = topic_settings(target, case.tiered, size.segment_bytes)
        create_topic(target.bootstrap, topic, settings)
        behind = (
            *("--bootstrap", target.bootstrap, "--topic", old.name),
            *("--records", str(old.records), "--record-bytes", str(RECORD_BYTES)),
            *("--consumers", str(_CONSUMERS), "--seconds", str(seconds + WARM_UP_S)),
            *("--mb-per-second", str(_TIMES_PRODUCERS * workload.megabytes_per_second)),
        )
        with recorder.usage(target):
            with traffic(target.bootstrap, topic, workload, seconds) as under_way:
                with start_client("catch_up", *behind) as catching_up:
                    under_way.record(recorder)
                    read = catching_up.result()
        recorder.figure("catch_up_mb_per_s", read.figures["mb_per_s"])
        delete_topic(target.bootstrap, topic)


SCENARIO: Scenario = CatchUp()
