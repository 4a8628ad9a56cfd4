"""Old data as tables: Spark, DuckDB and Polars from the tier, Spark's connector through a broker.

All count the same rows of a topic, which is all in the tier except the active segments, on one
core and on two: the reader is limited to these, and the broker has the others. Rows per second of
the reader's own CPU time are comparable even if reader and broker share cores. The broker's CPU is
measured too; while the tier is read directly it is idle. The query uses only keys and values; Spark
does not pass this on to a source, but a direct read can select the columns. The records of one
topic have one size, those of the other all sizes around it.

Only tierlog's tier can be read directly, so of other brokers the connector alone is measured.
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

_RECORD_BYTES = 100
_PARTITIONS = 2
_RECORDS = {Scale.SMOKE: 200_000, Scale.SMALL: 2_000_000, Scale.FULL: 10_000_000}
_SEGMENT_BYTES = {Scale.SMOKE: 2 << 20, Scale.SMALL: 32 << 20, Scale.FULL: 256 << 20}
_TIMEOUT_S = 1800.0


@dataclass(frozen=True, slots=True)
class _Way:
    reader: str
    varied: bool
    cores: int
    columns: str = ""
    """The columns to read; all if empty."""

    @property
    def case(self) -> Case:
        what = f"{self.reader} ({self.columns})" if self.columns else self.reader
        sizes = "varied sizes" if self.varied else "equal sizes"
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return Case(f"{what}, {sizes}, {cores}", tiered=True)

    @property
    def topic(self) -> str:
        return "varied-sizes" if self.varied else "equal-sizes"


_WAYS = {
    way.case.name: way
    for varied in (False, True)
    for cores in (1, 2)
    for way in (
        _Way("direct", varied, cores),
        _Way("direct", varied, cores, "key,value"),
        _Way("connector", varied, cores),
        _Way("duckdb", varied, cores),
        _Way("polars", varied, cores),
    )
}


@dataclass(frozen=True, slots=True)
class Spark:
    """Each run reads the same rows twice, and times the second reading."""

    name: str = "spark"
    summary: str = "a tier as a table: Spark directly and by its connector, DuckDB, Polars"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return [
            way.case
            for way in _WAYS.values()
            if scale is not Scale.SMOKE or (way.cores == 1 and way.varied)
        ]

    def plan(self, scale: Scale) -> Plan:
        if scale is Scale.SMOKE:
            return Plan(0, 1, "scenario", 40)
        if scale is Scale.SMALL:
            return Plan(0, 5, "scenario", 80)
        return Plan(0, 5, "scenario", 360)

    def refuses(self, case: Case, target: Target) -> str | None:
        way = _WAYS[case.name]
        module = way.reader if way.reader in ("duckdb", "polars") else "pyspark"
        if find_spec(module) is None:
            extra = "tierlog[spark]" if module == "pyspark" else f"tierlog[arrow] {module}"
            return f"{module} is not installed: pip install '{extra}'"
        if target.name != "tierlog" and way.reader != "connector":
            return "only tierlog's tier can be read without a broker"
        if way.cores > len(os.sched_getaffinity(0)):
            return "this machine has fewer cores"
        return has_no_tier(target)

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        way = _WAYS[case.name]
        ends = _ensure_topic(target, way, scale)
        options = _options(way, target, ends)
        assert target.node is not None, "Only brokers that the harness has started are measured."
        order = (way.reader, "--cores", str(way.cores), "--broker-pid", str(target.node.pid))
        stated = ("--options", json.dumps(options))
        figures = run_client("tier_reading", *order, *stated, timeout_s=_TIMEOUT_S).figures
        if figures["rows"] != sum(ends.values()):
            raise MeasurementError(f"{figures['rows']:g} rows of {sum(ends.values())} were read")
        gigabytes = figures["bytes"] / 1e9
        recorder.figure("records_per_s", figures["rows"] / figures["seconds"])
        recorder.figure("mb_per_s", figures["bytes"] / 1e6 / figures["seconds"])
        recorder.figure("records_per_client_cpu_s", figures["rows"] / figures["cpu_s"])
        recorder.figure("client_cpu_s_per_gb", figures["cpu_s"] / gigabytes)
        recorder.figure("broker_cpu_s_per_gb", figures["broker_cpu_s"] / gigabytes)


def _ensure_topic(target: RunningTarget, way: _Way, scale: Scale) -> dict[int, int]:
    """Fill the topic once; returns the end of what is read of each partition."""
    from ...harness.requests.admin import create_topic, end_offsets, holds

    records = _RECORDS[scale]
    if not holds(target.bootstrap, way.topic, records, _PARTITIONS):
        settings = topic_settings(target, True, _SEGMENT_BYTES[scale])
        settings["local.retention.bytes"] = "1"
        create_topic(target.bootstrap, way.topic, settings, partitions=_PARTITIONS)
        load = Load(
            records,
            _RECORD_BYTES,
            _PARTITIONS,
            batch_bytes=65_536,
            codec="none",
            varied=way.varied,
        )
        fill_topic(target.bootstrap, way.topic, load)
        wait_until_local_is_small(target, way.topic, _PARTITIONS * _SEGMENT_BYTES[scale])
    if target.name == "tierlog":
        return _tiered_ends(target, way.topic)
    # The end of another broker's tier is not known: what it has of the active segments is read too.
    return dict(enumerate(end_offsets(target.bootstrap, way.topic, _PARTITIONS)))


def _tiered_ends(target: RunningTarget, topic: str) -> dict[int, int]:
    from ....pipeline.reading.scan import plan_scan
    from ....pipeline.reading.scan_options import scan_options

    ends: dict[int, int] = {}
    for task in plan_scan(scan_options(_tier(target, topic))):
        ends[task.partition] = max(task.end_offset, ends.get(task.partition, 0))
    return ends


def _tier(target: RunningTarget, topic: str) -> dict[str, str]:
    """The options of `format("tierlog")` for a topic of the broker's tier."""
    assert target.node is not None, "Only brokers that the harness has started are measured."
    options = {"topic": topic}
    for name, value in target.node.properties().items():
        if name == "rsm.config.url":
            options["path"] = value
        elif name.startswith("rsm.config.option."):
            options[f"storage.{name.removeprefix('rsm.config.option.')}"] = value
    return options


def _options(way: _Way, target: RunningTarget, ends: dict[int, int]) -> dict[str, str]:
    until = json.dumps({way.topic: {str(partition): end for partition, end in ends.items()}})
    if way.reader != "connector":
        columns = {"columns": way.columns} if way.columns else {}
        return {**_tier(target, way.topic), **columns, "endingOffsets": until}
    return {
        "kafka.bootstrap.servers": target.bootstrap,
        "subscribe": way.topic,
        "startingOffsets": "earliest",
        "endingOffsets": until,
        "includeHeaders": "true",
    }


SCENARIO: Scenario = Spark()
