"""The scenario of the far tier, with its own S3 behind its own slow way, at the smallest scale."""

from pathlib import Path

from tierlog.bench.figures import RunKey
from tierlog.bench.harness.targets.named import target_named
from tierlog.bench.recorder import Recorder
from tierlog.bench.scenario import Case, Scale
from tierlog.bench.scenarios.tiered.remote_tier import DISK, LINKS, SCENARIO

from ...fake_target import FakeTarget

CHUNK_BYTES = 4 << 20


def test_catching_up_over_a_slow_way_is_measured_and_counted(tmp_path: Path) -> None:
    plan = SCENARIO.plan(Scale.SMOKE)
    case = Case("10 ms", tiered=True)
    target = target_named("tierlog", {})
    running = target.prepare(tmp_path, plan.properties, (tmp_path / "remote").as_uri())
    recorder = Recorder(RunKey(SCENARIO.name, case.name, "tierlog", True, 1))
    SCENARIO.measure(case, running, recorder, Scale.SMOKE)
    assert not running.is_alive()
    figures = {figure.metric: figure.value for figure in recorder.figures()}
    # Each byte goes up once and comes down once; nothing is written while it is read.
    assert 1 <= figures["copy_to_store_ratio"] < 1.05
    assert 0.9 < figures["fetch_from_store_ratio"] < 1.1
    assert figures["fetch_write_requests_per_gb"] == 0
    # A segment of the smallest scale is one chunk: a read for it and for its two indexes.
    assert figures["fetch_read_requests_per_gb"] >= 1e9 / CHUNK_BYTES
    assert figures["fetch_read_requests_per_gb"] < 5 * 1e9 / CHUNK_BYTES
    for cache in ("chunk", "index"):
        shares = [figures[f"{cache}_cache_{what}_ratio"] for what in ("hit", "joined")]
        assert shares[0] > 0
        assert sum(shares) <= 1
    assert min(figures[f"{what}_mb_per_s"] for what in ("copy", "catch_up", "one_by_one")) > 0


def test_every_way_is_measured_beside_the_brokers_own_disk() -> None:
    for scale in (Scale.SMALL, Scale.FULL):
        cases = list(SCENARIO.cases(scale))
        assert cases == [DISK, *(Case(name, tiered=True) for name in LINKS)]
    assert {link.latency_ms for link in LINKS.values()} == {0, 10, 100}
    assert any(link.mb_per_s for link in LINKS.values())


def test_who_cannot_have_such_a_tier_is_refused_in_a_sentence() -> None:
    case = Case("10 ms", tiered=True)
    assert SCENARIO.refuses(case, target_named("tierlog", {})) is None
    assert "fake" in (SCENARIO.refuses(case, FakeTarget()) or "")
