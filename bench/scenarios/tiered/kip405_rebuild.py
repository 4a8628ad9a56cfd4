"""KIP-405, test case 3: a broker loses its disk and is rebuilt under load.

`rebuild of a replica`: one of three brokers is stopped, wiped and started again, while producers go
on. A partition holds N MB, and N grows tenfold from case to case. The measurements are the time
until every partition has all its replicas in sync again, and the produce latency from the stop
until then. An untiered broker must fetch all retained records; a tiered one only those still on
the others' disks, so that its time does not grow with N. `seconds` begins with the new process,
whose own start (`start_s`) is most of it for a small N; `rebuild_s` is the time after that. The
KIP's own figures, tiered against untiered: 2 minutes against 230 with acks=all and 12 TB per
broker, 4 against 520 with acks=1 and 34 TB; produce p99 of 56 ms against 490, and 12 against 10.

`restore from the tier alone`: no other broker is left. `tierlog tier rebuild` recreates the data
directory from the tier, and the broker is started on it. Kafka has no equivalent, and records that
had not been copied are lost, so this case is not compared with the first.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ...harness.loads.client_process import run_client, start_client
from ...harness.loads.load import Load
from ...harness.measurement_error import MeasurementError
from ...harness.processes.broker_node import BrokerNode
from ...harness.processes.cluster import kind_of
from ...harness.targets.node_target import OFTEN
from ...harness.targets.target import RunningTarget, Target
from ...harness.targets.tiered_cluster import NODES, TieredCluster
from ...page_cache import write_back
from ...recorder import Recorder
from ...scenario import Case, Plan, Scale, Scenario
from ..client_runs import fill_topic
from .old_data import MEBIBYTE, RECORD_BYTES, OldTopic, ensure_old, topic_settings
from .traffic import PRODUCE, WARM_UP_S, WORKLOADS, Workload

_REPLICA = re.compile(r"rebuild of a replica, (\d+) MB a partition, (.*)")
_RESTORE = "restore from the tier alone"
_BATCH_BYTES = 900_000
_LOST = 2
_WAIT_S = 1_200.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class _Size:
    """The amounts of old data, and how long producers are measured before the disk is lost."""

    megabytes: tuple[int, ...]
    """Of the partition whose replica is rebuilt, growing from case to case."""
    restored_megabytes: int
    segment_bytes: int
    workloads: tuple[str, ...]
    share: float
    """The share of the workload's rate: three nodes share a machine meant for one broker."""
    seconds_before: float


_SIZES: Mapping[Scale, _Size] = MappingProxyType(
    {
        Scale.SMOKE: _Size((12,), 12, MEBIBYTE, ("acks=all",), 0.1, 1),
        Scale.SMALL: _Size((64, 640), 100, 8 * MEBIBYTE, ("acks=all",), 0.1, 2),
        Scale.FULL: _Size((64, 640, 6400), 500, 8 * MEBIBYTE, ("acks=all", "acks=1"), 0.2, 10),
    }
)


class Rebuild:
    """Test case 3; see the top of this file."""

    name = "kip405_rebuild"
    summary = "KIP-405 case 3: a broker loses its disk and is rebuilt while the load goes on"

    def cases(self, scale: Scale) -> Sequence[Case]:
        size = _SIZES[scale]
        names = [
            f"rebuild of a replica, {megabytes} MB a partition, {workload}"
            for workload in size.workloads
            for megabytes in size.megabytes
        ]
        replica = [Case(name, tiered) for name in names for tiered in (False, True)]
        return [*replica, Case(_RESTORE, tiered=True)]

    def plan(self, scale: Scale) -> Plan:
        size = _SIZES[scale]
        megabytes = sum(size.megabytes) / len(size.megabytes)
        return Plan(0, 1, "run", 12 + 2 * size.seconds_before + megabytes / 20)

    def refuses(self, case: Case, target: Target) -> str | None:
        if "start" not in target.capabilities:
            return "only brokers that the harness has started can lose their disk"
        if case.name == _RESTORE:
            if target.name != "tierlog":
                return f"{target.name} cannot be rebuilt from its tier alone"
        elif "quorum" not in target.capabilities:
            return "several nodes of it cannot be started"
        return None

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        size = _SIZES[scale]
        if case.name == _RESTORE:
            _measure_restore(target, recorder, size)
            return
        stated = _REPLICA.fullmatch(case.name)
        assert stated is not None, "all other cases are of this kind"
        workload = WORKLOADS[stated[2]]
        settings = topic_settings(target, case.tiered, size.segment_bytes)
        story = _Story(case.tiered, settings, workload, size, int(stated[1]))
        is_brief = scale is not Scale.FULL
        cluster = TieredCluster(
            target.directory / "cluster", kind_of(target.name), OFTEN, is_brief=is_brief
        )
        with cluster:
            _measure_replica(cluster, story, recorder)


# -- Rebuild of a replica -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Story:
    """The settings of one cluster's run: topics, load and amounts."""

    tiered: bool
    settings: Mapping[str, str]
    workload: Workload
    size: _Size
    megabytes: int


def _measure_replica(cluster: TieredCluster, story: _Story, recorder: Recorder) -> None:
    _fill_cluster(cluster, story)
    _create_topic(cluster, "live", story.settings, NODES)
    write_back()
    where = ("--bootstrap", cluster.bootstrap, "--topic", "live")
    first = story.workload.load(story.size.seconds_before, NODES, story.size.share)
    run_client("steady_load", *where, *first.arguments())  # the warm-up of a JVM
    before = run_client("steady_load", *where, *first.arguments())
    before.record_into(recorder.histogram(f"{PRODUCE}_before"))
    endless = story.workload.load(_WAIT_S, NODES, story.size.share)
    with start_client("steady_load", *where, *endless.arguments()) as producer:
        time.sleep(2 * WARM_UP_S)
        cluster.stop_and_wipe(_LOST)
        began = time.perf_counter()
        start_s = cluster.start_node(_LOST)
        unfenced = time.perf_counter()
        recorder.figure("start_s", start_s)
        while not (cluster.is_in_sync("old") and cluster.is_in_sync("live")):
            if producer.has_ended() or time.perf_counter() - began > _WAIT_S:
                raise MeasurementError(f"the broker is not in sync\n{cluster.log_tails()}")
            time.sleep(_POLL_S)
        rebuild_s = time.perf_counter() - unfenced
        recorder.figure("rebuild_s", rebuild_s)
        recorder.figure("seconds", start_s + rebuild_s)
        os.kill(producer.pid, signal.SIGTERM)
        producer.result().record_into(recorder.histogram(PRODUCE))
    recorder.figure("disk_mb", cluster.local_bytes("old")[_LOST - 1] / 1e6)


def _create_topic(
    cluster: TieredCluster, topic: str, settings: Mapping[str, str], partitions: int
) -> None:
    from ...harness.requests.admin import create_topic

    create_topic(
        cluster.bootstrap,
        topic,
        settings,
        partitions=partitions,
        replication_factor=NODES,
        is_new_cluster=True,
    )


def _fill_cluster(cluster: TieredCluster, story: _Story) -> None:
    settings = dict(story.settings)
    if story.tiered:
        settings["local.retention.bytes"] = "1"
    _create_topic(cluster, "old", settings, 1)
    records = story.megabytes * 1_000_000 // RECORD_BYTES
    load = Load(records, RECORD_BYTES, batch_bytes=_BATCH_BYTES)
    fill_topic(cluster.bootstrap, "old", load, timeout_s=_WAIT_S)
    began = time.perf_counter()
    # The active segment of a tiered partition stays.
    while story.tiered and max(cluster.local_bytes("old")) > story.size.segment_bytes:
        if time.perf_counter() - began > _WAIT_S:
            raise MeasurementError(f"the old data has not left the disks\n{cluster.log_tails()}")
        time.sleep(_POLL_S)


# -- Restore from the tier ----------------------------------------------------------------------


def _measure_restore(target: RunningTarget, recorder: Recorder, size: _Size) -> None:
    target.start()
    records_kept = size.restored_megabytes * 1_000_000 // RECORD_BYTES
    old = OldTopic("old", records_kept, size.segment_bytes, tiered=True)
    ensure_old(target, old)
    copied = target.bytes_in_tier("old")
    node = target.node
    assert node is not None, "a broker elsewhere was refused"
    target.stop()
    shutil.rmtree(node.directory / "logs")
    began = time.perf_counter()
    _rebuild_from_tier(node)
    recorder.figure("rebuild_s", time.perf_counter() - began)
    recorder.figure("start_s", target.start())
    # Read a tenth, to check that old records come from the tier.
    records = copied // RECORD_BYTES // 10
    read = run_client(
        "catch_up",
        *("--bootstrap", target.bootstrap, "--topic", "old"),
        *("--records", str(records), "--record-bytes", str(RECORD_BYTES)),
    )
    recorder.figure("seconds", time.perf_counter() - began)
    recorder.figure("mb_per_s", read.figures["mb_per_s"])


def _rebuild_from_tier(node: BrokerNode) -> None:
    """Run `tierlog tier rebuild` as a user does. Raises MeasurementError."""
    tierlog = Path(sys.executable).with_name("tierlog")
    configuration = node.directory / "server.properties"
    answer = subprocess.run(
        [str(tierlog), "tier", "rebuild", "--take-over", "--config", str(configuration)],
        capture_output=True,
        text=True,
        timeout=_WAIT_S,
        check=False,
    )
    if answer.returncode != 0:
        raise MeasurementError(f"tierlog tier rebuild failed: {answer.stdout}{answer.stderr}")


SCENARIO: Scenario = Rebuild()
