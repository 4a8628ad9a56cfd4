"""Producing and consuming over TLS: MB/s and the broker's CPU seconds per gigabyte.

The loads are those of `throughput.py`, over a listener of security protocol SSL: TLS 1.3 with
AES-256-GCM and one certificate for all brokers (`tls_identity.py`). Each run first checks that the
broker speaks this. The filling of a topic that is consumed goes through the listener without TLS
and is not measured. A JVM compiles its cipher in some gigabytes, as it does the rest: see
`broker_cpu_before_s`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..harness.peers.tls_check import check_cipher
from ..harness.targets.target import RunningTarget, Target
from ..recorder import Recorder
from ..scenario import Case, Plan, Scale, Scenario
from .throughput import CONSUME, JAVA, LIBRDKAFKA, PRODUCE, Shape, consume, produce

_KIB = 1024


def _smoke() -> Iterator[Shape]:
    yield Shape(PRODUCE)
    yield Shape(CONSUME)


def _small() -> Iterator[Shape]:
    for direction in (PRODUCE, CONSUME):
        for client in (LIBRDKAFKA, JAVA):
            for batch_kib in (16, 128):
                yield Shape(direction, client, batch_bytes=batch_kib * _KIB)


def _full() -> Iterator[Shape]:
    yield from _small()
    for direction in (PRODUCE, CONSUME):
        for client in (LIBRDKAFKA, JAVA):
            yield Shape(direction, client, 100, 6, 64 * _KIB, "lz4")
            yield Shape(direction, client, 10 * _KIB, 6, 512 * _KIB)


_SHAPES = {Scale.SMOKE: _smoke, Scale.SMALL: _small, Scale.FULL: _full}


@dataclass(frozen=True, slots=True)
class Tls:
    """Each run produces a case's records to a new topic, or consumes existing ones."""

    name: str = "tls"
    summary: str = "produce and consume over TLS 1.3: MB/s and the broker's CPU a gigabyte"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return [shape.case for shape in _SHAPES[scale]()]

    def plan(self, scale: Scale) -> Plan:
        if scale is Scale.SMOKE:
            return Plan(0, 1, "scenario", 3, tls=True)
        return Plan(1, 3, "scenario", 14, tls=True)

    def refuses(self, case: Case, target: Target) -> str | None:
        if target.name not in ("tierlog", "kafka"):
            return f"the harness cannot give {target.name} a listener with TLS"
        return None

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        assert target.node is not None, "The harness starts what this scenario does not refuse."
        shape = next(shape for shape in _SHAPES[scale]() if shape.case == case)
        authority = target.node.tls_authority
        check_cipher(target.node.tls_bootstrap, authority)
        options = ("--tls", target.node.tls_bootstrap, "--authority", str(authority))
        run = produce if shape.direction == PRODUCE else consume
        run(shape, shape.load(scale), target, recorder, options)


SCENARIO: Scenario = Tls()
