"""Startup on an empty directory, until the first response.

Every run starts a broker that has never run, once without a remote tier and once with one. The
broker is up when it has answered a Metadata request (`probe.py`); formatting Kafka's storage does
not count. CPU seconds are the reliable figure on a busy machine.
"""

from collections.abc import Sequence

from ..harness.targets.target import RunningTarget, Target
from ..recorder import MEBIBYTE, Recorder
from ..scenario import Case, Plan, Scale

_REPEATS = {Scale.SMOKE: 1, Scale.SMALL: 3, Scale.FULL: 7}
_SECONDS_A_START = 2.6


class Startup:
    """Measures time, CPU and memory to the first response."""

    name = "startup"
    summary = "start on an empty directory: seconds, CPU and memory to the first answer"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return (Case("empty directory"), Case("empty directory", tiered=True))

    def plan(self, scale: Scale) -> Plan:
        repeats = _REPEATS[scale]
        return Plan(
            warm_up=0,
            repeats=repeats,
            fresh_broker="run",
            expected_seconds=repeats * _SECONDS_A_START,
        )

    def refuses(self, case: Case, target: Target) -> str | None:
        return None

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        recorder.figure("start_s", target.start())
        usage = target.usage()
        if usage is not None:
            recorder.figure("start_cpu_s", usage.cpu_seconds)
            recorder.figure("resident_mib", usage.resident_bytes / MEBIBYTE)
        # The stop is not measured, and Kafka with a tier would take 40 s to stop this early.
        target.kill()


SCENARIO = Startup()
