"""KIP-405, test case 1: normal load, with tiered storage and without.

Producers keep a steady rate, with acks=all and with acks=1, and a consumer reads at the end of the
log; segments are so small that copying never stops. The KIP's own figures, for 30 and 55 MB/s per
broker: produce p99 of 25 ms tiered and 21 ms untiered with acks=all, 9 ms and 9 ms with acks=1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ...harness.measurement_error import MeasurementError
from ...harness.targets.target import RunningTarget, Target
from ...recorder import Recorder
from ...scenario import Case, Plan, Scale, Scenario
from .old_data import MEBIBYTE, has_no_tier, topic_settings
from .traffic import WORKLOADS, traffic


@dataclass(frozen=True, slots=True)
class _Size:
    """The length and number of runs at one scale."""

    seconds: float
    warm_up: int
    repeats: int
    segment_bytes: int


_SIZES: Mapping[Scale, _Size] = MappingProxyType(
    {
        Scale.SMOKE: _Size(1.5, warm_up=0, repeats=1, segment_bytes=MEBIBYTE),
        Scale.SMALL: _Size(3, warm_up=1, repeats=1, segment_bytes=4 * MEBIBYTE),
        Scale.FULL: _Size(10, warm_up=1, repeats=2, segment_bytes=16 * MEBIBYTE),
    }
)


class Normal:
    """Test case 1; see the top of this file."""

    name = "kip405_normal"
    summary = "KIP-405 case 1: producers and a tail consumer at a steady rate, acks=all and acks=1"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return [Case(name, tiered) for name in WORKLOADS for tiered in (False, True)]

    def plan(self, scale: Scale) -> Plan:
        size = _SIZES[scale]
        expected = size.warm_up * (size.seconds / 2 + 2) + size.repeats * (size.seconds + 2)
        return Plan(size.warm_up, size.repeats, "scenario", expected)

    def refuses(self, case: Case, target: Target) -> str | None:
        return has_no_tier(target) if case.tiered else None

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        from ...harness.requests.admin import create_topic, delete_topic

        size, workload = _SIZES[scale], WORKLOADS[case.name]
        # A warm-up run need not be as long.
        seconds = size.seconds if recorder.key.run > 0 else size.seconds / 2
        kind = "tiered" if case.tiered else "untiered"
        topic = f"normal-{workload.acks}-{kind}-{recorder.key.run}"
        settings = topic_settings(target, case.tiered, size.segment_bytes)
        create_topic(target.bootstrap, topic, settings)
        with recorder.usage(target):
            with traffic(target.bootstrap, topic, workload, seconds) as under_way:
                under_way.record(recorder)
        if case.tiered and not target.bytes_in_tier(topic):
            raise MeasurementError(f"nothing of {topic} was copied during the run")
        delete_topic(target.bootstrap, topic)


SCENARIO: Scenario = Normal()
