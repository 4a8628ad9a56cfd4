"""Attacks of the scenario `hostile` that hold something by doing little or nothing.

200 connections announce, dawdle, do not read, or wait. Beside them work clients of every kind
(`healthy.py`), first alone and then during the attack. The measurements are what these
wait at worst, what failed, which acknowledged records are not in the log, and the broker's memory
and CPU. Nothing may fail or be lost; see docs/limits.md for what is slowed instead.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from ..harness.loads.client_process import ClientError, ClientProcess, ClientResult, start_client
from ..harness.processes.observed_process import ObservedProcess
from ..harness.requests.probe import free_port
from ..harness.targets.target import RunningTarget, Target
from ..recorder import Recorder
from ..scenario import Case, Scale

_SECONDS = {Scale.SMOKE: 1.0, Scale.SMALL: 8.0, Scale.FULL: 30.0}
_ALONE_S = {Scale.SMOKE: 0.5, Scale.SMALL: 3.0, Scale.FULL: 5.0}
_WEIGHT = {Scale.SMOKE: 0.02, Scale.SMALL: 1.0, Scale.FULL: 1.0}
_BEGUN_AFTER_S = 0.5
"""The time before the measurement begins."""
_PATIENCE_S = 10.0
_ENDS_WITHIN_S = 300.0
"""Time to start the healthy clients, and to hear of their records from a slow broker."""
_WIDE_TOPIC, _WIDE_PARTITIONS = "hostile-wide", 1_000
_KEPT: Mapping[str, str] = {"retention.ms": "-1"}

Door = Literal["plaintext", "sasl", "status"]


@dataclass(frozen=True, slots=True)
class SilentCase(Case):
    """One attack, and the listener that it comes through."""

    attack: str = ""
    door: Door = "plaintext"

    def refuses(self, target: Target) -> str | None:
        """The reason why a target has no such listener; None if it has."""
        if self.door == "status" and target.name != "tierlog":
            return "it has no status page of its own"
        if target.name not in ("tierlog", "kafka"):
            return f"the harness cannot give {target.name} a listener with SASL"
        return None


SILENT_CASES = (
    SilentCase("200 announce large requests and stop", attack="announced"),
    SilentCase("200 produce, 4 KiB a second", attack="slow"),
    SilentCase("200 produce, 480 KiB and then 16 KiB a second", attack="slow_and_large"),
    SilentCase("200 hold half a SASL token", attack="half_tokens", door="sasl"),
    SilentCase("200 do not read their metadata", attack="unread"),
    SilentCase("200 wait for records", attack="long_polls"),
    SilentCase("200 open fetch sessions of 20,000 partitions", attack="sessions"),
    SilentCase("200 look up times in a compressed batch", attack="look_ups"),
    SilentCase("200 ask the status page by half", attack="half_http", door="status"),
)


@cache
def status_port() -> int:
    """The port of the status page; every run uses the same."""
    return free_port()


def measure_silent(
    case: SilentCase, target: RunningTarget, recorder: Recorder, scale: Scale
) -> None:
    """Start the broker, let the healthy work alone, then beside the attack."""
    node = target.node
    assert node is not None, "Its process can be observed."
    node.listen_with_sasl()
    target.start()
    _prepare(case, target, _WEIGHT[scale])
    process = ObservedProcess(node.pid)
    before_mib = process.resident_mib()
    with _healthy(case, target, _ALONE_S[scale]) as alone:
        recorder.figure("alone_worst_ms", _worst_ms(_result(alone, _ALONE_S[scale])))
    process.forget_peak()
    with _attacker(case, target, scale) as attacker, recorder.usage(target):
        wait_until_begun(attacker)
        with _healthy(case, target, _SECONDS[scale]) as healthy:
            result = _result(healthy, _SECONDS[scale])
        peak_mib = process.peak_mib()
    _record(result, recorder)
    recorder.figure("before_mib", before_mib)
    recorder.figure("above_idle_mib", peak_mib - before_mib)


def _prepare(case: SilentCase, target: RunningTarget, weight: float) -> None:
    from ..harness.loads.hostile.healthy import TOPICS
    from ..harness.loads.hostile.silent_attacks import IDLE_TOPIC
    from ..harness.requests.admin import create_topic

    for topic in (*TOPICS, IDLE_TOPIC):
        create_topic(target.bootstrap, topic, _KEPT)
    prepare = _PREPARED.get(case.attack)
    if prepare is not None:
        prepare(target, weight)


def _wide(target: RunningTarget, weight: float) -> None:
    """A topic of many partitions, so that metadata is large."""
    from ..harness.loads.hostile.attack import many
    from ..harness.requests.admin import create_topic

    partitions = many(_WIDE_PARTITIONS, weight)
    create_topic(target.bootstrap, _WIDE_TOPIC, partitions=partitions)


def _packed(target: RunningTarget, weight: float) -> None:
    """A topic with one compressed batch of many records."""
    from ...clients.record.batch import Record
    from ...clients.record.builder import build_batch
    from ...clients.record.compression import CompressionType
    from ..harness.loads.hostile.healthy import Producing
    from ..harness.loads.hostile.silent_attacks import PACKED_AT_MS, PACKED_TOPIC, packed_records
    from ..harness.requests.admin import create_topic
    from ..harness.requests.wire import Wire

    create_topic(target.bootstrap, PACKED_TOPIC, _KEPT)
    count = packed_records(weight)
    records = (Record(0, PACKED_AT_MS + number, None, bytes(20)) for number in range(count))
    batch = bytes(build_batch(records, compression=CompressionType.GZIP))
    with Wire(target.bootstrap) as wire:
        Producing(wire, PACKED_TOPIC, batch, set()).wait_ms()


_PREPARED: Mapping[str, Callable[[RunningTarget, float], None]] = {
    "unread": _wide,
    "look_ups": _packed,
}


def _address(door: Door, target: RunningTarget) -> str:
    assert target.node is not None
    match door:
        case "plaintext":
            return target.bootstrap
        case "sasl":
            return target.node.sasl_bootstrap
        case "status":
            return f"127.0.0.1:{status_port()}"


def _attacker(case: SilentCase, target: RunningTarget, scale: Scale) -> ClientProcess:
    """The attack; it is ended with its context."""
    lasting = _SECONDS[scale] + 2 * _PATIENCE_S + _ENDS_WITHIN_S
    return start_client(
        "hostile.hostile",
        case.attack,
        *("--bootstrap", _address(case.door, target)),
        *("--seconds", str(lasting), "--weight", str(_WEIGHT[scale])),
    )


def wait_until_begun(hostile: ClientProcess) -> None:
    """Wait for an attack, which takes a while to prepare its bytes."""
    time.sleep(_BEGUN_AFTER_S)
    if hostile.has_ended():
        raise ClientError("the attacker ended too early")


def _healthy(case: SilentCase, target: RunningTarget, seconds: float) -> ClientProcess:
    assert target.node is not None
    probing = ("--status", _address("status", target)) if case.door == "status" else ()
    return start_client(
        "hostile.healthy",
        *("--bootstrap", target.bootstrap, "--sasl", target.node.sasl_bootstrap),
        *("--seconds", str(seconds), "--patience", str(_PATIENCE_S)),
        *probing,
    )


def _result(healthy: ClientProcess, seconds: float) -> ClientResult:
    return healthy.result(seconds + 2 * _PATIENCE_S + _ENDS_WITHIN_S)


def _worst_ms(result: ClientResult) -> float:
    return max((latency.ms for latency in result.latencies), default=0.0)


def _record(result: ClientResult, recorder: Recorder) -> None:
    result.record_into(recorder.histogram("waited"))
    for name, value in result.figures.items():
        if name.endswith("_ms"):
            recorder.figure(name, value)
    recorder.figure("failed_count", result.figures["failed"])
    recorder.figure("lost_count", result.figures["lost"])
