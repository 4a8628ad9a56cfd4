"""Hostile clients: their effect on another client's latency and on the broker.

Each case is one attack on a fresh broker: an attacker and a well-behaved client, in separate
processes. The measurements are the well-behaved client's latency, the broker's peak memory, the
time that the broker takes to stop on SIGTERM during the attack, and the size of its log. A broker
that dies is counted in `died_count`. The attacks of clients that hold something by doing little or
nothing have well-behaved clients of more kinds (`hostile_silent.py`).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ..harness.loads.client_process import start_client
from ..harness.processes.observed_process import ObservedProcess
from ..harness.targets.target import RunningTarget, Target
from ..recorder import Recorder
from ..scenario import Case, Plan, Scale, Scenario
from .hostile_silent import SILENT_CASES, SilentCase, measure_silent, status_port, wait_until_begun

_SECONDS = {Scale.SMOKE: 1.0, Scale.SMALL: 6.0, Scale.FULL: 20.0}
_WEIGHT = {Scale.SMOKE: 0.02, Scale.SMALL: 1.0, Scale.FULL: 1.0}
_EXPECTED_S = {Scale.SMOKE: 5.0, Scale.SMALL: 25.0, Scale.FULL: 50.0}
_POLL_S = 0.05
_PATIENCE_S = 10.0
_STOPPED_WITHIN_S = 10.0
_RELEASED_WITHIN_S = 15.0
_STOP_BESIDE = 60.0
"""Extra time of the attack, which outlasts the measurement and is then ended."""
_SOCKETS_LEFT = 8


@dataclass(frozen=True, slots=True)
class AttackCase(Case):
    """One attack. If `releases`, its connections close and the broker must free their resources."""

    attack: str = ""
    releases: bool = False


_CASES = (
    AttackCase("24,000 small requests at once, 10 connections", attack="pipelined_10"),
    AttackCase("24,000 small requests at once, 50 connections", attack="pipelined_50"),
    AttackCase("fetches that wait 24 days, then closed", attack="parked", releases=True),
    AttackCase("answers that are never read", attack="never_reading", releases=True),
    AttackCase("30 unfinished requests of 99 MiB", attack="unfinished", releases=True),
    AttackCase("1,000 requests in single bytes", attack="slowloris"),
    AttackCase("junk", attack="junk"),
    AttackCase("(a+)+b for client metrics", attack="regex"),
    AttackCase("two topics of 5,000 partitions", attack="partitions"),
    AttackCase("requests that name a thing 5,000 to 1,000,000 times", attack="arrays"),
    AttackCase("128 MiB of records in 130 KB of gzip", attack="bombs"),
)


class Hostile:
    """One attack per run."""

    name = "hostile"
    summary = "a client's latency while another attacks; the broker's memory, stop time and log"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return (*_CASES, *SILENT_CASES)

    def plan(self, scale: Scale) -> Plan:
        repeats = 3 if scale is Scale.FULL else 1
        properties = {"tierlog.status.port": str(status_port())}
        return Plan(0, repeats, "run", _EXPECTED_S[scale] * repeats, properties)

    def refuses(self, case: Case, target: Target) -> str | None:
        if not {"start", "usage"} <= target.capabilities:
            return "its process cannot be observed or ended from here"
        if isinstance(case, SilentCase):
            return case.refuses(target)
        return None

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        from ..harness.loads.hostile.attacks import TOPIC
        from ..harness.requests.admin import create_topic

        if isinstance(case, SilentCase):
            measure_silent(case, target, recorder, scale)
            return
        assert isinstance(case, AttackCase)
        target.start()
        create_topic(target.bootstrap, TOPIC, {"cleanup.policy": "compact"})
        _attack(case, target, recorder, scale)


def _attack(case: AttackCase, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
    node = target.node
    assert node is not None, "Its process can be observed."
    process = ObservedProcess(node.pid)
    before_mib, before_sockets = process.resident_mib(), process.sockets()
    process.forget_peak()
    seconds = _SECONDS[scale]
    outlasts = str(seconds + _PATIENCE_S + _STOP_BESIDE)
    lasting = ("--bootstrap", target.bootstrap, "--seconds", outlasts)
    with start_client(
        "hostile.hostile", case.attack, *lasting, "--weight", str(_WEIGHT[scale])
    ) as hostile:
        wait_until_begun(hostile)
        waited = ("--seconds", str(seconds), "--patience", str(_PATIENCE_S))
        with start_client(
            "hostile.bystander", "--bootstrap", target.bootstrap, *waited
        ) as bystander:
            result = bystander.result(seconds + 2 * _PATIENCE_S + _STOP_BESIDE)
        result.record_into(recorder.histogram("waited"))
        recorder.figure("unanswered_count", result.figures["unanswered"])
        recorder.figure("before_mib", before_mib)
        if process.is_alive():
            recorder.figure("peak_mib", process.peak_mib())
        if case.releases:
            hostile.close()
            recorder.figure("released_s", _seconds_until_released(process, before_sockets))
        has_died = not node.is_alive()
        began = time.monotonic()
        node.stop(_STOPPED_WITHIN_S)
        recorder.figure("died_count", float(has_died))
        recorder.figure("stop_s", time.monotonic() - began)
    recorder.figure("traces_count", float(traces(node.output)))
    recorder.figure("log_lines_count", float(node.output.count("\n")))


def _seconds_until_released(process: ObservedProcess, sockets: int) -> float:
    """Seconds until the sockets of closed clients are released, at most _RELEASED_WITHIN_S."""
    began = time.monotonic()
    while (seconds := time.monotonic() - began) < _RELEASED_WITHIN_S:
        if not process.is_alive() or process.sockets() <= sockets + _SOCKETS_LEFT:
            return seconds
        time.sleep(_POLL_S)
    return _RELEASED_WITHIN_S


def traces(log: str) -> int:
    """The number of stack traces in a log, by Python's first lines and Java's frame lines."""
    count = 0
    is_inside = False
    for line in log.splitlines():
        is_frame = line.startswith("\tat ")
        count += line.lstrip().startswith("Traceback (most recent") or (is_frame and not is_inside)
        is_inside = is_frame
    return count


SCENARIO: Scenario = Hostile()
