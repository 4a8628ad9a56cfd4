"""Throughput, small requests and latency: what they measure, and what makes a run fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tierlog.bench.figures import RunKey
from tierlog.bench.harness.loads.client_process import run_client
from tierlog.bench.harness.loads.steady import SteadyLoad
from tierlog.bench.harness.measurement_error import MeasurementError
from tierlog.bench.harness.requests.admin import create_topic, fresh_topic
from tierlog.bench.harness.targets.target import RunningTarget
from tierlog.bench.harness.targets.tierlog import TierlogTarget
from tierlog.bench.recorder import Recorder
from tierlog.bench.scenario import Case, Scale, Scenario
from tierlog.bench.scenarios import counts, latency, small_requests, throughput

pytestmark = pytest.mark.slow

SCENARIOS = [
    throughput.SCENARIO,
    small_requests.SCENARIO,
    latency.SCENARIO,
    counts.SCENARIO,
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTarget]:
    directory = tmp_path_factory.mktemp("loads")
    tier: Path = directory / "remote"
    target = TierlogTarget().prepare(directory / "broker", {}, tier.resolve().as_uri())
    target.start()
    yield target
    target.stop()


def topics(bootstrap: str) -> set[str]:
    """The topics that clients have made; a broker makes its own when a group first needs them."""
    there = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics
    return {name for name in there if not name.startswith("__")}


def measure(scenario: Scenario, case: Case, broker: RunningTarget) -> dict[str, float]:
    recorder = Recorder(RunKey(scenario.name, case.name, broker.name, case.tiered, 0))
    scenario.measure(case, broker, recorder, Scale.SMOKE)
    return {figure.metric: figure.value for figure in recorder.figures()}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("scale", Scale)
def test_no_case_is_there_twice(scenario: Scenario, scale: Scale) -> None:
    cases = scenario.cases(scale)
    assert len(set(cases)) == len(cases)
    assert scenario.plan(scale).repeats >= 1


def test_producing_and_consuming_give_rates_and_the_brokers_cpu(broker: RunningTarget) -> None:
    produce, consume = throughput.SCENARIO.cases(Scale.SMOKE)
    before = topics(broker.bootstrap)
    for case in (produce, consume, consume):
        found = measure(throughput.SCENARIO, case, broker)
        assert found["mb_per_s"] > 0
        assert found["records_per_s"] > 0
        assert found["broker_cpu_s_per_gb"] >= 0
        assert found["broker_cpu_before_s"] > 0
    left = topics(broker.bootstrap) - before - {"__consumer_offsets"}
    assert len(left) == 1, "only what is consumed again and again stays"


def test_a_run_that_fails_leaves_no_topic(broker: RunningTarget) -> None:
    before = topics(broker.bootstrap)
    with pytest.raises(MeasurementError):
        with fresh_topic(broker.bootstrap, {}) as topic:
            assert topic in topics(broker.bootstrap)
            raise MeasurementError("a record was lost")
    assert topics(broker.bootstrap) == before


def test_records_that_are_others_fail_the_run(broker: RunningTarget) -> None:
    shape = throughput.Shape(throughput.CONSUME, record_bytes=100, batch_bytes=2048)
    load = shape.load(Scale.SMOKE)
    topic = throughput.kept_topic(load)
    create_topic(broker.bootstrap, topic)
    steady = SteadyLoad(load.records * 10, 100, 0.1, 0)
    order = ("--bootstrap", broker.bootstrap, "--topic", topic, *steady.arguments())
    run_client("steady_load", *order)
    recorder = Recorder(RunKey("throughput", shape.case.name, "tierlog", False, 0))
    with pytest.raises(MeasurementError, match="read wrong"):
        throughput.consume(shape, load, broker, recorder)


@pytest.mark.parametrize("case", small_requests.SCENARIO.cases(Scale.SMOKE), ids=lambda c: c.name)
def test_small_requests_are_counted_by_the_brokers_cpu(case: Case, broker: RunningTarget) -> None:
    found = measure(small_requests.SCENARIO, case, broker)
    assert found["requests_per_s"] > 0
    assert found["requests_per_broker_cpu_s"] > 0


@pytest.mark.requires("perf")
def test_a_request_in_flight_alone_is_a_wait_a_read_and_a_write(broker: RunningTarget) -> None:
    found = measure(counts.SCENARIO, Case("empty fetch, one in flight"), broker)
    for kind in ("wait", "read", "write"):
        assert 0.9 < found[f"{kind}_system_calls_per_request"] < 1.5
    assert not any(name.endswith(("_s", "_per_s")) for name in found), "it is not timed"


@pytest.mark.requires("perf")
def test_counts_have_the_requests_of_the_client(broker: RunningTarget) -> None:
    for case in throughput.SCENARIO.cases(Scale.SMOKE):
        found = measure(counts.SCENARIO, case, broker)
        # A batch has up to 16 KiB, and a request one or several.
        assert 1e9 / (1 << 20) / 64 < found["client_requests_per_gb"] < 1e9 / (8 << 10)
        assert found["system_calls_per_gb"] > 0
        assert found["kib_per_client_request"] > 8


@pytest.mark.parametrize("case", latency.SCENARIO.cases(Scale.SMOKE), ids=str)
def test_latencies_reach_from_the_sender_to_the_tail(case: Case, broker: RunningTarget) -> None:
    found = measure(latency.SCENARIO, case, broker)
    for name in ("produce", "end_to_end"):
        quantiles = [found[f"{name}_{each}_ms"] for each in ("p50", "p95", "p99", "p999", "max")]
        assert quantiles == sorted(quantiles)
        assert quantiles[0] > 0
