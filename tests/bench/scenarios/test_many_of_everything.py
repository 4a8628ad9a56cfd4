"""The scenarios about many partitions and connections notice when a broker does not keep up."""

import io
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tierlog.bench.figures import ResultsWriter, read_results
from tierlog.bench.harness.loads.acknowledged_load import AcknowledgedLoad
from tierlog.bench.harness.loads.connection_crowd import Bystander, Crowd, allow_files
from tierlog.bench.harness.loads.latencies import LatencyRecorder
from tierlog.bench.harness.loads.partition_load import (
    create_topics,
    fetch_everything,
    one_batch,
    open_session,
    produce_everywhere,
    produce_requests,
    topic_sizes,
)
from tierlog.bench.harness.measurement_error import MeasurementError
from tierlog.bench.harness.requests.wire import Wire, WireError, all_topics, delete_topic
from tierlog.bench.harness.targets.tierlog import TierlogTarget
from tierlog.bench.progress import LinesOfProgress
from tierlog.bench.runner import Runner, Settings
from tierlog.bench.scenario import Scale, Scenario
from tierlog.bench.scenarios import connections, idle, partitions, recovery
from tierlog.bench.schedule import schedule
from tierlog.tests.bench.fake_target import FakeTarget
from tierlog.tests.broker_process import BrokerProcess, BrokerThread


@contextmanager
def a_listener_that_hangs_up() -> Generator[str]:
    """Its address; it takes every connection and closes it at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        listener = threading.Thread(target=hang_up)
        listener.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        listener.join()


def test_partitions_are_spread_over_topics_that_one_request_can_create() -> None:
    assert topic_sizes(1) == {"spread-0": 1}
    assert topic_sizes(1_001) == {"spread-0": 500, "spread-1": 500, "spread-2": 1}
    assert sum(topic_sizes(10_000).values()) == 10_000


def test_what_went_into_every_partition_comes_out_of_every_partition(tmp_path: Path) -> None:
    batch = one_batch(10, 100, 0)
    with BrokerThread(tmp_path) as broker, Wire(broker.bootstrap) as wire:
        topics = create_topics(wire, 7, {})
        produce_everywhere(wire, produce_requests(topics, batch))
        assert fetch_everything(wire, topics, len(batch)) == 7 * len(batch)
        session = open_session(wire, topics, 10)
        for _ in range(3):
            wire.send(session.next_poll())
            # Partitions without news are left out.
            assert len(wire.receive()) < 40


def test_a_partition_that_gives_less_than_it_took_is_no_figure(tmp_path: Path) -> None:
    batch = one_batch(10, 100, 0)
    with BrokerThread(tmp_path) as broker, Wire(broker.bootstrap) as wire:
        topics = create_topics(wire, 2, {})
        (topic,) = topics
        only_one = [topic._replace(partitions=1)]
        produce_everywhere(wire, produce_requests(only_one, batch))
        with pytest.raises(WireError, match="Partition 1 gave 0 bytes"):
            fetch_everything(wire, topics, len(batch))
        delete_topic(wire, topic.name)
        with pytest.raises(WireError, match="UNKNOWN_TOPIC"):
            produce_everywhere(wire, produce_requests(topics, batch))


def test_a_lost_acknowledgement_is_found(tmp_path: Path) -> None:
    with BrokerProcess.on(tmp_path) as broker:
        with Wire(broker.bootstrap) as wire:
            topics = create_topics(wire, 3, {})
        with AcknowledgedLoad(broker.bootstrap, topics, 4) as load:
            load.wait_for(200_000, 30)
            broker.kill()
    with BrokerProcess.on(tmp_path) as broker:
        load.check_nothing_is_lost(broker.bootstrap)
        broker.kill()
    # The disk loses what it had: the batches of one partition.
    (tmp_path / "data" / "spread-0-1" / f"{0:020}.log").unlink()
    with (
        BrokerProcess.on(tmp_path) as broker,
        pytest.raises(MeasurementError, match="Batch 1 was acknowledged at offset 0 of spread-0-1"),
    ):
        load.check_nothing_is_lost(broker.bootstrap)


def test_a_broker_that_turns_newcomers_away_gives_no_figure() -> None:
    with a_listener_that_hangs_up() as bootstrap:
        with Crowd(bootstrap, 10) as crowd, pytest.raises(MeasurementError, match="of 10 failed"):
            crowd.connect(LatencyRecorder())
        with Bystander(bootstrap, all_topics(), LatencyRecorder()) as bystander:
            pass
        with pytest.raises(MeasurementError, match=r"closed the connection|reset by peer"):
            bystander.check()


def test_more_files_than_the_system_allows_are_refused_in_words() -> None:
    assert allow_files(10) is None
    sentence = allow_files(1 << 40)
    assert sentence is not None
    assert "ulimit -Hn" in sentence


SCENARIOS = [idle.SCENARIO, connections.SCENARIO, partitions.SCENARIO, recovery.SCENARIO]
SOME_FIGURES = {
    "idle": {"resident_mib", "idle_cpu_s_per_minute"},
    "connections": {"connect_s", "memory_kib_per_connection", "meanwhile_p99_ms", "beside_p50_ms"},
    "partitions": {"create_s", "metadata_p50_ms", "empty_poll_p50_ms", "stop_s", "start_cpu_s"},
    "recovery": {"first_answer_s", "recovery_cpu_s", "recovered_mb"},
}


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_broker_that_holds_gives_every_figure(scenario: Scenario, tmp_path: Path) -> None:
    results = ResultsWriter(tmp_path / "out")
    results.write_machine({})
    settings = Settings(Scale.SMOKE, tmp_path / "scratch")
    runner = Runner(results, LinesOfProgress(io.StringIO()), settings)
    runner.run(schedule([scenario], [TierlogTarget()], Scale.SMOKE))
    assert runner.failures == []
    found = {figure.metric: figure.value for figure in read_results(tmp_path / "out").figures}
    assert SOME_FIGURES[scenario.name] <= set(found)
    assert all(value >= 0 for value in found.values())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("scale", Scale)
def test_what_a_target_cannot_do_is_refused_in_words(scenario: Scenario, scale: Scale) -> None:
    cases = scenario.cases(scale)
    assert len(set(cases)) == len(cases)
    assert scenario.plan(scale).repeats >= 1
    nowhere = FakeTarget(capabilities=frozenset())
    assert all(scenario.refuses(case, nowhere) for case in cases)
    assert not any(scenario.refuses(case, TierlogTarget()) for case in cases)


def test_ten_thousand_partitions_of_others_are_for_the_full_scale() -> None:
    *_, most = partitions.SCENARIO.cases(Scale.SMALL)
    other = FakeTarget("kafka", capabilities=frozenset({"start", "usage", "durable"}))
    assert "--scale full" in (partitions.SCENARIO.refuses(most, other) or "")
    *_, most = partitions.SCENARIO.cases(Scale.FULL)
    assert partitions.SCENARIO.refuses(most, other) is None
