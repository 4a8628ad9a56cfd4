"""A broker with many partitions: create, Metadata, produce, fetch, stop and start.

Every figure should grow at most linearly with the number of partitions, and some not at all. The
topics have 500 partitions each. Every partition gets a batch, all are fetched again, and after the
restart every batch must still be there.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ..harness.loads.partition_load import (
    SpreadTopic,
    create_topics,
    fetch_everything,
    fetch_request,
    one_batch,
    open_session,
    produce_everywhere,
    produce_requests,
)
from ..harness.requests.wire import Wire, all_topics
from ..harness.targets.target import RunningTarget, Target
from ..recorder import MEBIBYTE, Recorder
from ..scenario import Case, Plan, Scale, Scenario
from .idle import cannot_restart, used

_RECORDS, _RECORD_BYTES = 10, 100
_TIMESTAMP_MS = 1_750_000_000_000
_ASKED = {Scale.SMOKE: 5, Scale.SMALL: 20, Scale.FULL: 100}
_KIBIBYTE = 1024


@dataclass(frozen=True, slots=True)
class ManyPartitions(Case):
    """A number of partitions; with `others_need_minutes`, only tierlog is measured."""

    partitions: int = 1
    others_need_minutes: bool = False


class Partitions:
    """One case per number of partitions; each run has a new broker, and restarts it."""

    name = "partitions"
    summary = "1, 1,000 and 10,000 partitions: create, Metadata, produce, fetch, stop, start"

    def cases(self, scale: Scale) -> Sequence[Case]:
        if scale is Scale.SMOKE:
            return [ManyPartitions("100 partitions", partitions=100)]
        return [
            ManyPartitions("1 partition", partitions=1),
            ManyPartitions("1,000 partitions", partitions=1_000),
            ManyPartitions(
                "10,000 partitions",
                partitions=10_000,
                others_need_minutes=scale is not Scale.FULL,
            ),
        ]

    def plan(self, scale: Scale) -> Plan:
        expected = {Scale.SMOKE: 4.0, Scale.SMALL: 14.0, Scale.FULL: 70.0}
        return Plan(0, 1, "run", expected_seconds=expected[scale])

    def refuses(self, case: Case, target: Target) -> str | None:
        if (reason := cannot_restart(target)) is not None:
            return reason
        assert isinstance(case, ManyPartitions)
        if case.others_need_minutes and target.name != "tierlog":
            return f"{case.name} take minutes there: use --scale full"
        return None

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        assert isinstance(case, ManyPartitions)
        target.start()
        with Wire(target.bootstrap) as wire:
            topics = _create(wire, case.partitions, target, recorder)
            _ask_metadata(wire, recorder, scale)
            size = _produce(wire, topics, recorder)
            _fetch(wire, topics, size, recorder, scale)
            _, resident = used(target)
            recorder.figure("resident_mib", resident / MEBIBYTE)
        _restart(target, recorder)
        with Wire(target.bootstrap) as wire:
            fetch_everything(wire, topics, size)


def _create(
    wire: Wire, partitions: int, target: RunningTarget, recorder: Recorder
) -> list[SpreadTopic]:
    cpu_s, resident = used(target)
    began = time.perf_counter()
    topics = create_topics(wire, partitions, target.topic_config(tiered=False))
    recorder.figure("create_s", time.perf_counter() - began)
    later_s, later_resident = used(target)
    recorder.figure("create_cpu_s", later_s - cpu_s)
    each = (later_resident - resident) / partitions / _KIBIBYTE
    recorder.figure("memory_kib_per_partition", max(0.0, each))
    return topics


def _ask_metadata(wire: Wire, recorder: Recorder, scale: Scale) -> None:
    request = all_topics()
    wire.answer_ms(request)
    answers = recorder.histogram("metadata")
    for at in range(_ASKED[scale]):
        answers.record(wire.answer_ms(request), float(at))


def _produce(wire: Wire, topics: Sequence[SpreadTopic], recorder: Recorder) -> int:
    """Produce two batches to each partition, the first without files; returns a batch's size."""
    batch = one_batch(_RECORDS, _RECORD_BYTES, _TIMESTAMP_MS)
    requests = produce_requests(topics, batch)
    for metric in ("produce_first_s", "produce_again_s"):
        began = time.perf_counter()
        produce_everywhere(wire, requests)
        recorder.figure(metric, time.perf_counter() - began)
    return len(batch)


def _fetch(
    wire: Wire, topics: Sequence[SpreadTopic], size: int, recorder: Recorder, scale: Scale
) -> None:
    """Fetch all partitions in one request, then poll like a consumer that has read them."""
    fetch_everything(wire, topics, size)
    request = fetch_request(topics, 0)
    full = recorder.histogram("fetch")
    for at in range(_ASKED[scale]):
        full.record(wire.answer_ms(request), float(at))
    polls = recorder.histogram("empty_poll")
    session = open_session(wire, topics, 2 * _RECORDS)
    for at in range(_ASKED[scale]):
        polls.record(wire.answer_ms(session.next_poll()), float(at))


def _restart(target: RunningTarget, recorder: Recorder) -> None:
    began = time.perf_counter()
    target.stop()
    recorder.figure("stop_s", time.perf_counter() - began)
    recorder.figure("start_s", target.start())
    cpu_s, resident = used(target)
    recorder.figure("start_cpu_s", cpu_s)
    recorder.figure("started_resident_mib", resident / MEBIBYTE)


SCENARIO: Scenario = Partitions()
