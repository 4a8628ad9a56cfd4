"""Many connected clients that are mostly idle, like most clients of a large installation.

The connections are opened two hundred at a time and send one request each. Meanwhile and afterwards
an existing client keeps sending requests: its latency shows whether the new connections disturb
others. Then all clients are idle, and the CPU that their connections still cost is measured.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ...clients.protocol.messages.metadata import MetadataRequest
from ..harness.loads.connection_crowd import Bystander, Crowd, allow_files
from ..harness.requests.wire import Wire, prepare
from ..harness.targets.target import RunningTarget, Target
from ..recorder import Recorder
from ..scenario import Case, Plan, Scale, Scenario
from .idle import used

_IDLE_S = {Scale.SMOKE: 0.5, Scale.SMALL: 3.0, Scale.FULL: 15.0}
_ASKED = {Scale.SMOKE: 20, Scale.SMALL: 200, Scale.FULL: 1_000}
_KIBIBYTE = 1024
_METADATA_VERSION = 12


@dataclass(frozen=True, slots=True)
class ManyConnections(Case):
    """A case with a number of connections."""

    connections: int = 1


class Connections:
    """One case per number of connections, each at a fresh broker."""

    name = "connections"
    summary = "1,000 and 10,000 idle connections: time to connect, memory and CPU, others' latency"

    def cases(self, scale: Scale) -> Sequence[Case]:
        sizes = (200,) if scale is Scale.SMOKE else (1_000, 10_000)
        return [ManyConnections(f"{size:,} connections", connections=size) for size in sizes]

    def plan(self, scale: Scale) -> Plan:
        expected = {Scale.SMOKE: 2.0, Scale.SMALL: 8.0, Scale.FULL: 25.0}
        return Plan(0, 1, "run", expected_seconds=expected[scale])

    def refuses(self, case: Case, target: Target) -> str | None:
        assert isinstance(case, ManyConnections)
        if not {"start", "usage"} <= target.capabilities:
            return "its process cannot be observed from here"
        return allow_files(case.connections)

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        assert isinstance(case, ManyConnections)
        target.start()
        _measure(case.connections, target, recorder, scale)


def _measure(size: int, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
    question = prepare(MetadataRequest(topics=[]), _METADATA_VERSION)
    with Wire(target.bootstrap) as wire, Crowd(target.bootstrap, size) as crowd:
        for _ in range(_ASKED[scale]):
            # Warm up the broker's code for this request before anything counts.
            wire.answer_ms(question)
        cpu_s, resident = used(target)
        with Bystander(target.bootstrap, question, recorder.histogram("meanwhile")) as bystander:
            seconds = crowd.connect(recorder.histogram("first_answer"))
        bystander.check()
        connected_s, connected_resident = used(target)
        recorder.figure("connect_s", seconds)
        recorder.figure("connects_per_s", size / seconds)
        recorder.figure("connect_cpu_s", connected_s - cpu_s)
        each = (connected_resident - resident) / size / _KIBIBYTE
        recorder.figure("memory_kib_per_connection", max(0.0, each))
        time.sleep(_IDLE_S[scale])
        idle_s, _ = used(target)
        per_minute = (idle_s - connected_s) / _IDLE_S[scale] * 60
        recorder.figure("idle_cpu_s_per_minute", per_minute)
        beside = recorder.histogram("beside")
        for at in range(_ASKED[scale]):
            beside.record(wire.answer_ms(question), float(at))


SCENARIO: Scenario = Connections()
