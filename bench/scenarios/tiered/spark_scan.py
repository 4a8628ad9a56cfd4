"""Spark over old data: directly from the tier, or with Kafka's connector through the broker.

Both count the same rows of a topic, which is all in the tier except the active segments, on one
core and on two: Spark is limited to these, and the broker has the others. Rows per second of
Spark's own CPU time are comparable even if broker and Spark share cores. The broker's CPU is
measured too; during a direct scan it is idle. The query uses only keys and values; Spark does not
pass this on to a source, but a direct read can select the columns.

Only tierlog's tier can be read directly, so other brokers are not measured.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from ...harness.loads.client_process import run_client
from ...harness.loads.load import Load
from ...harness.measurement_error import MeasurementError
from ...harness.targets.target import RunningTarget, Target
from ...recorder import Recorder
from ...scenario import Case, Plan, Scale, Scenario
from ..client_runs import fill_topic
from .old_data import has_no_tier, topic_settings, wait_until_local_is_small

_TOPIC = "scanned"
_RECORD_BYTES = 100
_PARTITIONS = 2
_RECORDS = {Scale.SMOKE: 200_000, Scale.SMALL: 2_000_000, Scale.FULL: 10_000_000}
_SEGMENT_BYTES = {Scale.SMOKE: 2 << 20, Scale.SMALL: 32 << 20, Scale.FULL: 256 << 20}
_TIMEOUT_S = 1800.0


@dataclass(frozen=True, slots=True)
class _Way:
    source: str
    cores: int
    columns: str = ""
    """The columns to read; all if empty."""

    @property
    def case(self) -> Case:
        what = f"{self.source} ({self.columns})" if self.columns else self.source
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return Case(f"{what}, {cores}", tiered=True)


_WAYS = {
    way.case.name: way
    for cores in (1, 2)
    for way in (
        _Way("direct", cores),
        _Way("direct", cores, "key,value"),
        _Way("connector", cores),
    )
}


@dataclass(frozen=True, slots=True)
class SparkScan:
    """Each run reads the same rows twice, and times the second reading."""

    name: str = "spark_scan"
    summary: str = "Spark over a tier, directly and through the broker: rows/s, CPU of both"

    def cases(self, scale: Scale) -> Sequence[Case]:
        ways = [way for way in _WAYS.values() if scale is not Scale.SMOKE or way.cores == 1]
        return [way.case for way in ways]

    def plan(self, scale: Scale) -> Plan:
        if scale is Scale.SMOKE:
            return Plan(0, 1, "scenario", 40)
        if scale is Scale.SMALL:
            return Plan(0, 2, "scenario", 80)
        return Plan(0, 3, "scenario", 360)

    def refuses(self, case: Case, target: Target) -> str | None:
        if find_spec("pyspark") is None:
            return "PySpark is not installed: pip install 'tierlog[spark]'"
        if target.name != "tierlog":
            return "only tierlog's tier can be read without a broker"
        if _WAYS[case.name].cores > len(os.sched_getaffinity(0)):
            return "this machine has fewer cores"
        return has_no_tier(target)

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        way = _WAYS[case.name]
        ends = _ensure_topic(target, scale)
        options = _options(way, target, ends)
        assert target.node is not None, "Only brokers that the harness has started are measured."
        order = (way.source, "--cores", str(way.cores), "--broker-pid", str(target.node.pid))
        stated = ("--options", json.dumps(options))
        figures = run_client("spark_scan", *order, *stated, timeout_s=_TIMEOUT_S).figures
        if figures["rows"] != sum(ends.values()):
            raise MeasurementError(f"{figures['rows']:g} rows of {sum(ends.values())} were read")
        gigabytes = figures["bytes"] / 1e9
        recorder.figure("records_per_s", figures["rows"] / figures["seconds"])
        recorder.figure("mb_per_s", figures["bytes"] / 1e6 / figures["seconds"])
        recorder.figure("records_per_client_cpu_s", figures["rows"] / figures["cpu_s"])
        recorder.figure("client_cpu_s_per_gb", figures["cpu_s"] / gigabytes)
        recorder.figure("broker_cpu_s_per_gb", figures["broker_cpu_s"] / gigabytes)


def _ensure_topic(target: RunningTarget, scale: Scale) -> dict[int, int]:
    """Fill the topic once; returns the end offset of each partition in the tier."""
    from ...harness.requests.admin import create_topic, holds

    records = _RECORDS[scale]
    if not holds(target.bootstrap, _TOPIC, records, _PARTITIONS):
        settings = topic_settings(target, True, _SEGMENT_BYTES[scale])
        settings["local.retention.bytes"] = "1"
        create_topic(target.bootstrap, _TOPIC, settings, partitions=_PARTITIONS)
        load = Load(records, _RECORD_BYTES, _PARTITIONS, batch_bytes=65_536, codec="none")
        fill_topic(target.bootstrap, _TOPIC, load)
        wait_until_local_is_small(target, _TOPIC, _PARTITIONS * _SEGMENT_BYTES[scale])
    return _tiered_ends(target)


def _tiered_ends(target: RunningTarget) -> dict[int, int]:
    from ....pipeline.reading.scan import plan_scan
    from ....pipeline.reading.scan_options import scan_options

    ends: dict[int, int] = {}
    for task in plan_scan(scan_options(_tier(target))):
        ends[task.partition] = max(task.end_offset, ends.get(task.partition, 0))
    return ends


def _tier(target: RunningTarget) -> dict[str, str]:
    """The options of `format("tierlog")` for the broker's tier."""
    assert target.node is not None, "Only brokers that the harness has started are measured."
    options = {"topic": _TOPIC}
    for name, value in target.node.properties().items():
        if name == "rsm.config.url":
            options["path"] = value
        elif name.startswith("rsm.config.option."):
            options[f"storage.{name.removeprefix('rsm.config.option.')}"] = value
    return options


def _options(way: _Way, target: RunningTarget, ends: dict[int, int]) -> dict[str, str]:
    until = json.dumps({_TOPIC: {str(partition): end for partition, end in ends.items()}})
    if way.source == "direct":
        columns = {"columns": way.columns} if way.columns else {}
        return {**_tier(target), **columns, "endingOffsets": until}
    return {
        "kafka.bootstrap.servers": target.bootstrap,
        "subscribe": _TOPIC,
        "startingOffsets": "earliest",
        "endingOffsets": until,
        "includeHeaders": "true",
    }


SCENARIO: Scenario = SparkScan()
