"""A crash under load: the time until the broker answers again, and whether records are lost.

The broker is killed (SIGKILL) during writes. The page cache survives, as whenever a process dies,
but the next start must do the same as after a power failure: read everything above the last
checkpoint, batch by batch. Every acknowledged batch must be at its offset; a broker that has lost
one gets no figures, however fast it was.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ..harness.loads.acknowledged_load import AcknowledgedLoad
from ..harness.loads.partition_load import create_topics
from ..harness.requests.wire import Wire, topic_id
from ..harness.targets.target import RunningTarget, Target
from ..recorder import MEBIBYTE, Recorder
from ..scenario import Case, Plan, Scale, Scenario
from .idle import used

_LOAD_S = 120.0
_MEGABYTE = 10**6


@dataclass(frozen=True, slots=True)
class Crash(Case):
    """The amount of data and number of partitions when the broker dies."""

    partitions: int = 1
    megabytes: int = 1
    records_a_batch: int = 64


class Recovery:
    """One crash per run."""

    name = "recovery"
    summary = "kill -9 under load: seconds to the first answer, and nothing acknowledged is lost"

    def cases(self, scale: Scale) -> Sequence[Case]:
        if scale is Scale.SMOKE:
            return [Crash("10 MB in 1 partition", megabytes=10)]
        one, many = (100, 50) if scale is Scale.SMALL else (2_000, 500)
        return [
            Crash(f"{one:,} MB in 1 partition", megabytes=one),
            Crash(
                f"{many} MB in 500 partitions", partitions=500, megabytes=many, records_a_batch=16
            ),
        ]

    def plan(self, scale: Scale) -> Plan:
        expected = {Scale.SMOKE: 3.0, Scale.SMALL: 15.0, Scale.FULL: 45.0}
        return Plan(0, 1, "run", expected_seconds=expected[scale])

    def refuses(self, case: Case, target: Target) -> str | None:
        if "start" not in target.capabilities:
            return "it cannot be killed from here"
        if "durable" not in target.capabilities:
            return "it keeps nothing across a restart"
        return None

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        assert isinstance(case, Crash)
        target.start()
        with Wire(target.bootstrap) as wire:
            topics = create_topics(wire, case.partitions, target.topic_config(case.tiered))
        with AcknowledgedLoad(target.bootstrap, topics, case.records_a_batch) as load:
            load.wait_for(case.megabytes * _MEGABYTE, _LOAD_S)
            target.kill()
        began = time.perf_counter()
        recorder.figure("first_answer_s", target.start())
        with Wire(target.bootstrap) as wire:
            for topic in topics:
                topic_id(wire, topic.name)
        recorder.figure("all_led_s", time.perf_counter() - began)
        cpu_s, resident = used(target)
        recorder.figure("recovery_cpu_s", cpu_s)
        recorder.figure("resident_mib", resident / MEBIBYTE)
        recorder.figure("recovered_mb", load.acknowledged_bytes / _MEGABYTE)
        load.check_nothing_is_lost(target.bootstrap)


SCENARIO: Scenario = Recovery()
