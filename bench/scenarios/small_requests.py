"""The cost of a request: produce requests with one record, and empty fetches.

Small requests show the broker's overhead, which large batches hide. They are sent over a plain
socket, so that the client is not the bottleneck (`raw_requests.py`); the key figure is the
number of requests per CPU second of the broker. With one in flight, each request wakes the broker
and each response the client; with 64, the broker may handle several at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..harness.loads.client_process import run_client
from ..harness.measurement_error import MeasurementError
from ..harness.targets.target import RunningTarget, Target
from ..recorder import Recorder
from ..scenario import Case, Plan, Scale, Scenario
from .client_runs import record_cpu_before

_MANY = 64
_REQUESTS = {Scale.SMOKE: 2_000, Scale.SMALL: 6_000, Scale.FULL: 15_000}
"""The number of requests with one in flight; with many in flight, three times as many are sent."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of request load."""

    kind: str
    in_flight: int
    acks: str = "all"


_KINDS = {
    "produce 1 record, one in flight": _Kind("produce", 1),
    "produce 1 record, pipelined": _Kind("produce", _MANY),
    "produce 1 record, acks=1, pipelined": _Kind("produce", _MANY, "1"),
    "empty fetch, one in flight": _Kind("fetch", 1),
    "empty fetch, pipelined": _Kind("fetch", _MANY),
    "empty fetch in a session, one in flight": _Kind("session_fetch", 1),
    "empty fetch in a session, pipelined": _Kind("session_fetch", _MANY),
}


@dataclass(frozen=True, slots=True)
class SmallRequests:
    """Each run sends requests over one connection to a new topic."""

    name: str = "small_requests"
    summary: str = "one record per request, empty fetches: requests per CPU second of the broker"

    def cases(self, scale: Scale) -> Sequence[Case]:
        if scale is Scale.FULL:
            return [Case(name) for name in _KINDS]
        return [Case(name) for name, kind in _KINDS.items() if kind.acks == "all"]

    def plan(self, scale: Scale) -> Plan:
        if scale is Scale.SMOKE:
            return Plan(0, 1, "scenario", 1)
        return Plan(1, 2, "scenario", 5.5) if scale is Scale.SMALL else Plan(2, 3, "scenario", 19)

    def refuses(self, case: Case, target: Target) -> str | None:
        if target.name == "tansu" and _KINDS[case.name].kind != "produce":
            return "tansu opens no fetch session, and leaves an empty partition out of its answer"
        return None

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        from ..harness.requests.admin import ends_at, fresh_topic

        kind = _KINDS[case.name]
        requests = _REQUESTS[scale] * (1 if kind.in_flight == 1 else 3)
        with fresh_topic(target.bootstrap, target.topic_config(False)) as topic:
            record_cpu_before(target, recorder)
            order = (kind.kind, "--bootstrap", target.bootstrap, "--topic", topic)
            load = ("--requests", str(requests), "--in-flight", str(kind.in_flight))
            with recorder.usage(target, requests=requests):
                result = run_client("raw_requests", *order, *load, "--acks", kind.acks)
            recorder.figure("requests_per_s", requests / result.figures["seconds"])
            # The client sends one extra request first, to see what a response looks like.
            expected = requests + 1 if kind.kind == "produce" else 0
            if not ends_at(target.bootstrap, topic, [expected]):
                raise MeasurementError(f"the log does not end after {expected} records")


SCENARIO: Scenario = SmallRequests()
