"""The latency of a record: to its acknowledgement, and to a consumer at the end of the log.

Senders keep a fixed pace, and a latency counts from when its record was meant to be sent: a delay
of the sender counts for all records that should have been sent meanwhile (coordinated omission).
Producer and consumer are separate processes that use librdkafka.

- `low rate`: a hundred records per second, each sent immediately in its own batch (no linger): the
  latency of one record without other load.
- `steady 5 MB/s`: acks=all, with a linger of 2 ms, tiered and untiered next to each other. The
  tiered topic has segments of 4 MiB, so that copying never stops; KIP-405's authors measured 1.19
  times the latency with tiering.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..harness.loads.steady import SteadyLoad
from ..harness.measurement_error import MeasurementError
from ..harness.targets.target import RunningTarget, Target
from ..recorder import Recorder
from ..scenario import Case, Plan, Scale, Scenario
from .client_runs import measure_latency

_LOW = "low rate, end to end"
_STEADY = "steady 5 MB/s, acks=all"
_SEGMENT_BYTES = 4 << 20
# A smoke test runs on a busy machine, and copying must begin within this time.
_SECONDS = {Scale.SMOKE: 3.0, Scale.SMALL: 1.5, Scale.FULL: 8.0}


def _load(case: Case, scale: Scale) -> SteadyLoad:
    seconds = _SECONDS[scale]
    if case.name == _LOW:
        return SteadyLoad(100, 100, seconds, 1.0, linger_ms=0)
    return SteadyLoad(5_000, 1_000, seconds, 1.0)


@dataclass(frozen=True, slots=True)
class Latency:
    """Each run is one steady load into a new topic, with a consumer at its end."""

    name: str = "latency"
    summary: str = "acknowledgement and end to end: a low rate, and a steady 5 MB/s"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return (Case(_LOW), Case(_STEADY), Case(_STEADY, tiered=True))

    def plan(self, scale: Scale) -> Plan:
        if scale is Scale.SMOKE:
            return Plan(0, 1, "scenario", 12)
        return Plan(1, 2, "scenario", 10) if scale is Scale.SMALL else Plan(1, 3, "scenario", 44)

    def refuses(self, case: Case, target: Target) -> str | None:
        if case.tiered and "tier" not in target.capabilities:
            return f"{target.name} has no remote tier"
        return None

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        from ..harness.requests.admin import fresh_topic

        load = _load(case, scale)
        config = target.topic_config(case.tiered)
        with fresh_topic(target.bootstrap, {**config, **_small_segments(config)}) as topic:
            measure_latency(load, target, topic, recorder)
            if case.tiered and not target.bytes_in_tier(topic):
                raise MeasurementError("nothing was copied to the tier meanwhile")


def _small_segments(config: dict[str, str]) -> dict[str, str]:
    """Small segments, if the broker supports topic settings."""
    return {"segment.bytes": str(_SEGMENT_BYTES)} if config else {}


SCENARIO: Scenario = Latency()
