"""An idle broker: its memory, and the CPU that it still uses.

It has a hundred empty partitions, because a broker without any has no periodic work. The cost of
the start and of their creation does not count: the measurement begins after a pause.
"""

import time
from collections.abc import Sequence

from ..harness.loads.partition_load import create_topics
from ..harness.measurement_error import MeasurementError
from ..harness.requests.wire import Wire
from ..harness.targets.target import RunningTarget, Target
from ..recorder import MEBIBYTE, Recorder
from ..scenario import Case, Plan, Scale, Scenario

PARTITIONS = 100
_SETTLE_S = {Scale.SMOKE: 1.0, Scale.SMALL: 1.0, Scale.FULL: 10.0}
_WATCH_S = {Scale.SMOKE: 1.0, Scale.SMALL: 2.0, Scale.FULL: 20.0}


class Idle:
    """Measures memory, and CPU seconds per minute."""

    name = "idle"
    summary = "memory and CPU of a broker with 100 empty partitions that nobody uses"

    def cases(self, scale: Scale) -> Sequence[Case]:
        plain = Case(f"{PARTITIONS} partitions")
        return [plain] if scale is Scale.SMOKE else [plain, Case(plain.name, tiered=True)]

    def plan(self, scale: Scale) -> Plan:
        seconds = _SETTLE_S[scale] + _WATCH_S[scale]
        return Plan(0, 1, "run", expected_seconds=seconds + (2 if scale is Scale.SMOKE else 3))

    def refuses(self, case: Case, target: Target) -> str | None:
        if not {"start", "usage"} <= target.capabilities:
            return "its process cannot be observed from here"
        if case.tiered and "tier" not in target.capabilities:
            return "it has no remote tier"
        return None

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        target.start()
        with Wire(target.bootstrap) as wire:
            create_topics(wire, PARTITIONS, target.topic_config(case.tiered))
        time.sleep(_SETTLE_S[scale])
        cpu_s, _ = used(target)
        began = time.monotonic()
        time.sleep(_WATCH_S[scale])
        seconds = time.monotonic() - began
        later_s, resident = used(target)
        recorder.figure("resident_mib", resident / MEBIBYTE)
        recorder.figure("idle_cpu_s_per_minute", (later_s - cpu_s) / seconds * 60)


def cannot_restart(target: Target) -> str | None:
    """The reason why a target's restarts cannot be measured; None if they can."""
    if not {"start", "usage"} <= target.capabilities:
        return "it cannot be started and observed from here"
    return None if "durable" in target.capabilities else "it keeps nothing across a restart"


def used(target: RunningTarget) -> tuple[float, int]:
    """CPU seconds so far, and current memory in bytes. Raises MeasurementError if unknown."""
    usage = target.usage()
    if usage is None:
        raise MeasurementError("The broker's resource usage cannot be read.")
    return usage.cpu_seconds, usage.resident_bytes


SCENARIO: Scenario = Idle()
