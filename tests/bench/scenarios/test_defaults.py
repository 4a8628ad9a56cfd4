"""Clients with their default settings: each accounts for its records or fails the run."""

from collections.abc import Iterator

import pytest

from tierlog.bench.figures import RunKey
from tierlog.bench.harness.loads.client_process import ClientError, run_client
from tierlog.bench.harness.loads.defaults.tally import Acknowledged, Tally
from tierlog.bench.harness.loads.load import Load, LoadError
from tierlog.bench.harness.requests.admin import create_topic
from tierlog.bench.harness.targets.elsewhere import ElsewhereTarget
from tierlog.bench.harness.targets.node_target import OFTEN
from tierlog.bench.harness.targets.tansu import TansuTarget
from tierlog.bench.harness.targets.target import RunningTarget
from tierlog.bench.harness.targets.tierlog import TierlogTarget
from tierlog.bench.recorder import Recorder
from tierlog.bench.scenario import Case, Scale
from tierlog.bench.scenarios import defaults
from tierlog.bench.scenarios.defaults import CLIENTS, CONSUME, LISTS, PRODUCE, TIER, Shape

NEEDS = {
    "librdkafka in C": ("cc",),
    "Java": ("java", "mvn"),
    "franz-go": ("go",),
    "sarama": ("go",),
    "kafkajs": ("node",),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTarget]:
    directory = tmp_path_factory.mktemp("defaults")
    tier = (directory / "remote").resolve().as_uri()
    target = TierlogTarget().prepare(directory / "broker", OFTEN, tier)
    target.start()
    yield target
    target.stop()


def measure(case: Case, broker: RunningTarget, scale: Scale = Scale.SMOKE) -> dict[str, float]:
    recorder = Recorder(RunKey("defaults", case.name, broker.name, case.tiered, 1))
    defaults.SCENARIO.measure(case, broker, recorder, scale)
    return {figure.metric: figure.value for figure in recorder.figures()}


@pytest.mark.parametrize("scale", Scale)
def test_no_case_is_there_twice_and_full_has_them_all(scale: Scale) -> None:
    cases = defaults.SCENARIO.cases(scale)
    assert len(set(cases)) == len(cases)
    assert set(cases) <= set(defaults.SCENARIO.cases(Scale.FULL))
    assert defaults.SCENARIO.plan(scale).repeats >= 1


def test_a_target_that_cannot_be_measured_gets_the_reason() -> None:
    client = next(iter(CLIENTS))
    tiered, cold = (Shape(CONSUME, client, place=place).case for place in (TIER, "cold"))
    said = defaults.SCENARIO.refuses
    assert "no remote tier" in (said(tiered, TansuTarget()) or "")
    assert "harness starts" in (said(cold, ElsewhereTarget("127.0.0.1:1")) or "")
    assert "in memory" in (said(cold, TansuTarget()) or "")
    assert said(tiered, TierlogTarget()) is None
    spread = Shape(PRODUCE, client, partitions=6).case
    assert "does not report how many" in (said(spread, TansuTarget()) or "")
    assert "franz-go" in (said(Shape(CONSUME, "franz-go").case, TansuTarget()) or "")


def test_a_tally_knows_each_partitions_next_offset_and_every_byte() -> None:
    tally = Tally(Load(3, 10, partitions=2))
    tally.take(0, 0, 10)
    tally.returned(True)
    tally.take(1, 0, 10)
    with pytest.raises(LoadError, match="offset 2 of partition 0 came, not 1"):
        tally.take(0, 2, 10)
    with pytest.raises(LoadError, match="2 records came, with 20 bytes"):
        tally.figures()
    tally.take(0, 1, 10)
    tally.returned(True)
    assert tally.is_complete
    assert tally.figures()["records"] == 2


def test_records_that_came_at_once_have_no_rate() -> None:
    tally = Tally(Load(1, 10))
    tally.take(0, 0, 10)
    tally.returned(True)
    with pytest.raises(LoadError, match="at once"):
        tally.figures()


def test_a_record_that_was_not_acknowledged_is_no_figure() -> None:
    acknowledged = Acknowledged(Load(2, 10))
    acknowledged.records = 1
    acknowledged.started()
    with pytest.raises(LoadError, match="1 records not acknowledged"):
        acknowledged.figures()
    acknowledged.records = 2
    assert acknowledged.figures()["records"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "client",
    [
        pytest.param(name, marks=pytest.mark.requires(*NEEDS[name]) if name in NEEDS else ())
        for name in CLIENTS
    ],
)
def test_a_client_as_it_comes_produces_and_consumes_everything(
    client: str, broker: RunningTarget
) -> None:
    for direction in (PRODUCE, CONSUME) if client != LISTS else (CONSUME,):
        found = measure(Shape(direction, client, 100, 6).case, broker)
        assert found["records_per_s"] > 0
        assert found["mb_per_s"] == pytest.approx(found["records_per_s"] * 100 / 1e6)
        assert found["broker_cpu_s_per_gb"] >= 0
        assert found["first_record_s"] > 0


@pytest.mark.slow
def test_the_smoke_scale_runs(broker: RunningTarget) -> None:
    for case in defaults.SCENARIO.cases(Scale.SMOKE):
        assert measure(case, broker)["records_per_s"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("place", ["cold", "tier"])
def test_what_is_consumed_may_be_cold_or_in_the_tier(place: str, broker: RunningTarget) -> None:
    found = measure(Shape(CONSUME, LISTS, 1024, 1, place).case, broker)
    assert found["mb_per_s"] > 0
    if place == "tier":
        assert broker.bytes_in_tier("defaults-100000-1024-1-tiered") > 10_000_000


@pytest.mark.slow
def test_another_load_than_was_asked_for_fails_the_run(broker: RunningTarget) -> None:
    create_topic(broker.bootstrap, "others")
    order = ("--bootstrap", broker.bootstrap, "--topic", "others")
    run_client("defaults.librdkafka_fill", "produce", *order, *Load(2_000, 100).arguments())
    with pytest.raises(ClientError, match="bytes of values"):
        run_client("defaults.confluent", "consume", "consume", *order, *Load(2_000, 99).arguments())
