"""KIP-405's three cases and copying: what they measure, at whom, and what makes a run fail."""

import re
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.bench.figures import RunKey
from tierlog.bench.harness.loads.catch_up import CatchUp, Old, catch_up
from tierlog.bench.harness.requests.admin import create_topic, led_partitions
from tierlog.bench.harness.targets.elsewhere import ElsewhereTarget
from tierlog.bench.harness.targets.kafka import KafkaTarget
from tierlog.bench.harness.targets.tansu import TansuTarget
from tierlog.bench.harness.targets.target import RunningTarget, Target
from tierlog.bench.harness.targets.tierlog import TierlogTarget
from tierlog.bench.memory import have_memory_at_hand
from tierlog.bench.page_cache import drop_page_cache, fill_page_cache
from tierlog.bench.recorder import Recorder
from tierlog.bench.scenario import Case, Scale, Scenario
from tierlog.bench.scenarios.tiered import copying, kip405_catch_up, kip405_normal, kip405_rebuild
from tierlog.bench.scenarios.tiered.copying import Theft
from tierlog.bench.scenarios.tiered.old_data import (
    OldTopic,
    ensure_old,
    fill,
    local_bytes,
    topic_settings,
)
from tierlog.bench.scenarios.tiered.traffic import WORKLOADS

pytestmark = pytest.mark.slow

SCENARIOS = [
    kip405_normal.SCENARIO,
    kip405_catch_up.SCENARIO,
    kip405_rebuild.SCENARIO,
    copying.SCENARIO,
]
MEBIBYTE = 1 << 20
REBUILD = "rebuild of a replica, 12 MB a partition, acks=all"
OFTEN = {
    "remote.log.manager.task.interval.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTarget]:
    directory = tmp_path_factory.mktemp("tiering")
    tier = (directory / "remote").resolve().as_uri()
    target = TierlogTarget().prepare(directory / "broker", OFTEN, tier)
    target.start()
    yield target
    target.stop()


def measure(
    scenario: Scenario, case: Case, broker: RunningTarget, scale: Scale = Scale.SMOKE
) -> dict[str, float]:
    assert case in scenario.cases(scale)
    recorder = Recorder(RunKey(scenario.name, case.name, broker.name, case.tiered, 1))
    scenario.measure(case, broker, recorder, scale)
    return {figure.metric: figure.value for figure in recorder.figures()}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("scale", Scale)
def test_no_case_is_there_twice(scenario: Scenario, scale: Scale) -> None:
    cases = scenario.cases(scale)
    assert len(set(cases)) == len(cases)
    assert scenario.plan(scale).repeats >= 1


ELSEWHERE = ElsewhereTarget("127.0.0.1:1")


@pytest.mark.parametrize(
    ("scenario", "case", "target", "reason"),
    [
        (kip405_normal.SCENARIO, Case("acks=1", True), TierlogTarget(), None),
        (kip405_normal.SCENARIO, Case("acks=1", False), ELSEWHERE, None),
        (kip405_normal.SCENARIO, Case("acks=1", True), TansuTarget(), "no remote tier"),
        (kip405_catch_up.SCENARIO, Case("acks=1", False), ELSEWHERE, "harness starts"),
        (kip405_rebuild.SCENARIO, Case(REBUILD), KafkaTarget(), None),
        (kip405_rebuild.SCENARIO, Case(REBUILD, True), TierlogTarget(), None),
        (kip405_rebuild.SCENARIO, Case(REBUILD, True), TansuTarget(), "cannot be started"),
        (
            kip405_rebuild.SCENARIO,
            Case("restore from the tier alone", True),
            KafkaTarget(),
            "cannot be rebuilt from its tier alone",
        ),
        (
            kip405_rebuild.SCENARIO,
            Case("restore from the tier alone", True),
            ELSEWHERE,
            "harness has started",
        ),
    ],
)
def test_a_target_that_cannot_be_measured_gets_the_reason(
    scenario: Scenario, case: Case, target: Target, reason: str | None
) -> None:
    said = scenario.refuses(case, target)
    assert said is None if reason is None else said is not None and reason in said


def test_throughput_lost_is_per_ten_megabytes_copied() -> None:
    assert Theft(100, 90, 50).percent_per_10_megabytes == pytest.approx(2)
    assert Theft(100, 100, 50).percent_per_10_megabytes == 0
    assert Theft(100, 50, 0).percent_per_10_megabytes == 0


def test_what_is_old_and_tiered_has_left_the_disk(broker: RunningTarget) -> None:
    old = OldTopic("old-and-tiered", 6_000, MEBIBYTE, tiered=True)
    ensure_old(broker, old)
    assert local_bytes(broker, old.name) <= MEBIBYTE
    assert broker.bytes_in_tier(old.name) >= 5_000_000
    before = broker.bytes_in_tier(old.name)
    ensure_old(broker, old)
    assert broker.bytes_in_tier(old.name) == before, "it was there already"


def test_consumers_that_are_behind_read_everything_once_between_them(
    broker: RunningTarget,
) -> None:
    create_topic(broker.bootstrap, "shares", topic_settings(broker, False, MEBIBYTE))
    fill(broker, "shares", 4_000)
    found = catch_up(Old(broker.bootstrap, "shares", 4_000, 1024), CatchUp(4))
    assert found["megabytes"] == pytest.approx(4_000 * 1024 / 1e6)
    # Two megabytes a second for half a second, and the list that each of them had begun.
    paced = CatchUp(2, seconds=0.5, bytes_per_second=2e6)
    found = catch_up(Old(broker.bootstrap, "shares", 4_000, 1024), paced)
    assert 2 * 1.024 <= found["megabytes"] <= found["seconds"] * 2 + 2 * 1.024


def test_a_page_cache_without_the_files_changes_nothing_in_them(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "0.log").write_bytes(b"records" * 10_000)
    drop_page_cache(tmp_path)
    assert (tmp_path / "logs" / "0.log").read_bytes() == b"records" * 10_000


def test_only_the_segments_of_the_topic_are_read_into_the_page_cache(tmp_path: Path) -> None:
    for name, size in (("t-0", 3_000_000), ("t-11", 5), ("t-x-0", 7), ("other-0", 11)):
        (tmp_path / "logs" / name).mkdir(parents=True)
        (tmp_path / "logs" / name / "0.log").write_bytes(bytes(size))
        (tmp_path / "logs" / name / "0.index").write_bytes(bytes(8))
    assert fill_page_cache(tmp_path, "t") == 3_000_005


def test_memory_at_hand_is_memory_that_was_free(tmp_path: Path) -> None:
    def written() -> int:
        """Bytes that this process has written, be it only to the page cache."""
        return int(re.findall(r"wchar: (\d+)", Path("/proc/self/io").read_text())[0])

    before, bytes_before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, written()
    assert have_memory_at_hand(64 << 20, tmp_path) == 64 << 20
    touched = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert touched >= (16 << 20) // (2 << 20), "Not even huge pages were touched."
    assert written() - bytes_before >= 48 << 20, "The page cache had no part in it."
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("tiered", [False, True])
def test_normal_load_is_felt_by_producers_and_by_the_tail(
    broker: RunningTarget, tiered: bool
) -> None:
    found = measure(kip405_normal.SCENARIO, Case("acks=all", tiered), broker)
    for whose in ("produce", "tail"):
        in_order = [found[f"{whose}_{name}_ms"] for name in ("p50", "p95", "p99", "p999", "max")]
        assert in_order == sorted(in_order)
        assert found[f"{whose}_mean_ms"] > 0
    assert not led_partitions(broker.bootstrap, f"normal-all-{'' if tiered else 'un'}tiered-1")


def test_catching_up_beside_normal_load_keeps_its_pace_or_less(broker: RunningTarget) -> None:
    found = measure(kip405_catch_up.SCENARIO, Case("acks=1", tiered=True), broker)
    # At most what it is allowed, and what is under way when the time is up.
    assert 0 < found["catch_up_mb_per_s"] < 12 * WORKLOADS["acks=1"].megabytes_per_second
    assert found["produce_p99_ms"] > 0
    assert found["tail_p99_ms"] > 0


@pytest.mark.parametrize("tiered", [False, True])
def test_old_data_is_read_hot_and_cold(broker: RunningTarget, tiered: bool) -> None:
    for name in ("catch up, 1 consumer, hot", "catch up, 10 consumers, cold"):
        found = measure(copying.SCENARIO, Case(name, tiered), broker)
        assert found["mb_per_s"] > 0
        assert found["broker_cpu_s_per_gb"] > 0


def test_copying_has_a_price_and_takes_something_from_producers(broker: RunningTarget) -> None:
    found = measure(copying.SCENARIO, Case("copy", tiered=True), broker)
    assert found["broker_cpu_s_per_gb"] > 0
    assert found["mb_per_s"] > 0
    found = measure(copying.SCENARIO, Case("produce beside copying", tiered=True), broker)
    assert found["alone_mb_per_s"] > 0
    assert found["beside_mb_per_s"] > 0
    assert found["copied_mb_per_s"] >= 0


def test_a_broker_is_restored_from_its_tier_alone(tmp_path: Path) -> None:
    tier = (tmp_path / "remote").resolve().as_uri()
    target = TierlogTarget().prepare(tmp_path / "broker", OFTEN, tier)
    target.directory.mkdir()
    try:
        case = Case("restore from the tier alone", tiered=True)
        found = measure(kip405_rebuild.SCENARIO, case, target)
    finally:
        target.stop()
    assert 0 < found["rebuild_s"] + found["start_s"] < found["seconds"]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.requires("java", "mvn")
@pytest.mark.parametrize("target", [TierlogTarget(), KafkaTarget()], ids=lambda each: each.name)
def test_a_broker_of_three_is_rebuilt_while_producers_go_on(target: Target, tmp_path: Path) -> None:
    broker = target.prepare(tmp_path, {}, (tmp_path / "remote").as_uri())
    measured = measure(kip405_rebuild.SCENARIO, Case(REBUILD, tiered=True), broker)
    assert measured["seconds"] >= measured["start_s"] > 0
    assert measured["produce_before_p99_ms"] > 0
    assert measured["produce_p99_ms"] > 0
    # All but the active segment stayed in the tier.
    assert 0 < measured["disk_mb"] <= 1.1
