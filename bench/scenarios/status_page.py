"""A broker with its status page open: what the page costs a producer, and how soon it is answered.

1,000 partitions and 200 groups, each with an offset committed in a hundred partitions. A producer
keeps a steady pace (acks=all) while a page is open for three seconds and closed for three, so that
whatever else slows the machine down is shared by both and does not count as the page's cost. A
record counts as sent with a page if one was open when it was to be sent. The page asks for the
topics, a topic and the groups in turn, and for the overview each time, at a shorter interval than
the real one, and has each answer as long as its ETag holds.
"""

import http.client
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Self

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ...clients.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ..harness.loads.client_process import start_client
from ..harness.loads.partition_load import create_topics
from ..harness.loads.steady import SteadyLoad
from ..harness.measurement_error import MeasurementError
from ..harness.requests.probe import free_port
from ..harness.requests.wire import Wire, WireError
from ..harness.targets.target import RunningTarget, Target
from ..recorder import Recorder
from ..scenario import Case, Plan, Scale, Scenario

_COMMITTED_PARTITIONS = 100
_SECONDS = {Scale.SMOKE: 8.0, Scale.SMALL: 30.0, Scale.FULL: 120.0}
_RECORDS_A_SECOND, _RECORD_BYTES = 1_000, 1_000
_POLL_S = 1.0
_COORDINATOR_WITHIN_S, _RETRY_S = 60.0, 0.05
_OPEN_S = 3.0
_PAGES = ("topics", "topics/spread-0", "groups")
_OVERVIEW = "overview"


@dataclass(frozen=True, slots=True)
class ManyGroups(Case):
    """How much there is to be shown."""

    partitions: int = 1
    groups: int = 1


@cache
def _port() -> int:
    """The port of the status page; every run uses the same."""
    return free_port()


class StatusPage:
    """One run: a new broker, and a steady load with and without an open page."""

    name = "status_page"
    summary = "produce p99 with and without the status page open; how soon the page is answered"

    def cases(self, scale: Scale) -> Sequence[Case]:
        if scale is Scale.SMOKE:
            return [ManyGroups("100 partitions, 20 groups", partitions=100, groups=20)]
        return [ManyGroups("1,000 partitions, 200 groups", partitions=1_000, groups=200)]

    def plan(self, scale: Scale) -> Plan:
        repeats = 1 if scale is Scale.SMOKE else 3
        seconds = _SECONDS[scale] + 15
        properties = {"tierlog.status.port": str(_port())}
        return Plan(0, repeats, "run", repeats * seconds, properties)

    def refuses(self, case: Case, target: Target) -> str | None:
        return None if target.name == "tierlog" else "it has no status page of its own"

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        assert isinstance(case, ManyGroups)
        target.start()
        with Wire(target.bootstrap) as wire:
            create_topics(wire, case.partitions, target.topic_config(tiered=False))
            _commit(wire, case.groups)
        load = SteadyLoad(_RECORDS_A_SECOND, _RECORD_BYTES, _SECONDS[scale])
        order = ("--bootstrap", target.bootstrap, "--topic", "spread-0", *load.arguments())
        page = OpenPage(_port())
        opened: list[tuple[float, float]] = []
        with start_client("steady_load", *order) as client:
            while not client.has_ended():
                time.sleep(_OPEN_S)
                began = time.monotonic()
                with page:
                    time.sleep(_OPEN_S)
                opened.append((began, time.monotonic()))
            produced = client.result()
        alone, with_page = (recorder.histogram(name) for name in ("alone", "with_page"))
        counts_from_s = produced.figures["counts_from_s"]
        for at_s, ms in produced.latencies:
            is_open = any(begin <= counts_from_s + at_s < end for begin, end in opened)
            (with_page if is_open else alone).record(ms, at_s)
        page.record_into(recorder)
        with_page_ms, alone_ms = (each.total().percentile_ms(99) for each in (with_page, alone))
        recorder.figure("p99_change_percent", (with_page_ms / alone_ms - 1) * 100)


def _commit(wire: Wire, groups: int) -> None:
    """Commit an offset of each of the first partitions for every group. Raises WireError."""
    offsets = [
        OffsetCommitRequestPartition(
            partition_index=each, committed_offset=0, committed_metadata=""
        )
        for each in range(_COMMITTED_PARTITIONS)
    ]
    topics = [OffsetCommitRequestTopic(name="spread-0", partitions=offsets)]
    names = [f"group-{number:03d}" for number in range(groups)]
    # Makes the groups' topic.
    wire.ask(FindCoordinatorRequest(coordinator_keys=names[:1]), 4, FindCoordinatorResponse)
    deadline = time.monotonic() + _COORDINATOR_WITHIN_S
    for name in names:
        request = OffsetCommitRequest(group_id=name, topics=topics)
        while refused := _refused(wire.ask(request, 8, OffsetCommitResponse)):
            if time.monotonic() > deadline:
                raise WireError(f"The offsets of {name} were not committed: {refused.name}.")
            time.sleep(_RETRY_S)


def _refused(answer: OffsetCommitResponse) -> ErrorCode:
    return ErrorCode(max(partition.error_code for partition in answer.topics[0].partitions))


class OpenPage:
    """Polls the status API in a thread while its context lasts."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._tags: dict[str, str] = {}
        self._answers_ms: dict[str, list[float]] = {}
        self._failure = ""
        self._closed = threading.Event()
        self._thread = threading.Thread()

    def __enter__(self) -> Self:
        self._closed.clear()
        self._thread = threading.Thread(target=self._poll, name="status page")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def _poll(self) -> None:
        polls = 0
        while not self._failure:
            for name in (_OVERVIEW, _PAGES[polls % len(_PAGES)]):
                self._ask(name)
            polls += 1
            if self._closed.wait(_POLL_S):
                return

    def _ask(self, name: str) -> None:
        fields = {"If-None-Match": self._tags[name]} if name in self._tags else {}
        began = time.perf_counter()
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
            connection.request("GET", f"/api/v1/{name}", headers=fields)
            response = connection.getresponse()
            response.read()
            connection.close()
        except (OSError, http.client.HTTPException) as error:
            self._failure = self._failure or f"/api/v1/{name} was not answered: {error}"
            return
        if response.status not in (200, 304):
            self._failure = self._failure or f"/api/v1/{name} got {response.status}"
            return
        self._tags[name] = response.headers["ETag"]
        self._answers_ms.setdefault(name, []).append((time.perf_counter() - began) * 1000)

    def record_into(self, recorder: Recorder) -> None:
        """Record how long the answers took. Raises MeasurementError if one did not come."""
        if self._failure:
            raise MeasurementError(self._failure)
        for name, metric in ((_OVERVIEW, "overview"), ("topics", "topics"), ("groups", "groups")):
            for number, ms in enumerate(self._answers_ms.get(name, ())):
                recorder.histogram(metric).record(ms, float(number))


SCENARIO: Scenario = StatusPage()
