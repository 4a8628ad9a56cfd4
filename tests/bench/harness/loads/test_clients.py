"""Client processes account for every record, and say so when one is missing or wrong."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from confluent_kafka import KafkaException

from tierlog.bench.harness.loads.client_process import ClientError, run_client, start_client
from tierlog.bench.harness.loads.java_perf import Progress, progress, steady_rate
from tierlog.bench.harness.loads.load import VALUES, Load, LoadError, parse_order, values
from tierlog.bench.harness.loads.steady import SteadyLoad
from tierlog.bench.harness.measurement_error import MeasurementError
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.bench.harness.requests.admin import create_topic, end_offsets, holds, led_partitions

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with TierlogNode(tmp_path_factory.mktemp("clients")) as node:
        yield node.bootstrap


def order(bootstrap: str, topic: str, load: Load | SteadyLoad) -> tuple[str, ...]:
    return ("--bootstrap", bootstrap, "--topic", topic, *load.arguments())


def test_in_a_new_cluster_a_topic_that_exists_was_created_by_a_lost_attempt(bootstrap: str) -> None:
    create_topic(bootstrap, "again")
    with pytest.raises(KafkaException, match="already exists"):
        create_topic(bootstrap, "again")
    create_topic(bootstrap, "again", is_new_cluster=True)


def test_a_load_reaches_its_client_as_it_was_meant() -> None:
    load = Load(10, 100, 3, 4096, 5, "lz4", "1")
    stated = parse_order(None, ["produce", *order("here:1", "topic", load)])
    assert stated.load == load
    assert (stated.direction, stated.bootstrap, stated.topic) == ("produce", "here:1", "topic")
    assert [load.records_in(partition) for partition in range(3)] == [4, 3, 3]


def test_the_row_of_values_is_the_same_everywhere_and_no_value_like_another() -> None:
    assert values(100) == values(100)
    assert len(set(values(100))) == VALUES
    assert {len(value) for value in values(10)} == {10}


def test_varied_values_have_all_sizes_around_the_mean() -> None:
    sizes = [len(value) for value in values(100, varied=True)]
    assert sorted(sizes) == [200 * number // (VALUES - 1) for number in range(VALUES)]
    assert sum(sizes) / VALUES == pytest.approx(100, abs=1)
    assert all(one != other for one, other in pairwise(sizes))


@pytest.mark.parametrize(
    ("client", "load"),
    [
        ("librdkafka_load", Load(3_000, 100, 1, 4096)),
        ("librdkafka_load", Load(3_001, 1024, 3, 16384, codec="lz4", acks="1")),
        ("own_load", Load(2_501, 100, 3, 4096, codec="gzip")),
        ("own_load", Load(2_000, 100, 2, 4096, varied=True)),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.partitions} partitions",
)
def test_every_record_comes_back_as_it_was_sent(bootstrap: str, client: str, load: Load) -> None:
    topic = f"{client}-{load.partitions}"
    create_topic(bootstrap, topic, partitions=load.partitions)
    for direction in ("produce", "consume"):
        result = run_client(client, direction, *order(bootstrap, topic, load))
        assert result.figures["seconds"] > 0
        assert result.cpu_seconds > 0
    assert holds(bootstrap, topic, load.records, load.partitions)
    assert not holds(bootstrap, topic, load.records + 1, load.partitions)
    # What one client wrote the other would have written.
    other = {"own_load": "librdkafka_load", "librdkafka_load": "own_load"}[client]
    run_client(other, "consume", *order(bootstrap, topic, load))


@pytest.mark.requires("java", "mvn")
def test_kafkas_tools_tell_their_pace_and_how_many_records_warmed_them_up(bootstrap: str) -> None:
    load = Load(60_000, 1024, 2, 16384)
    create_topic(bootstrap, "java", partitions=2)
    for direction in ("produce", "consume"):
        result = run_client("java_perf", direction, *order(bootstrap, "java", load))
        assert result.figures["seconds"] > 0
        assert result.figures["warm_up_records"] >= 20_000
    assert sum(end_offsets(bootstrap, "java", 2)) == 60_000


def test_a_topic_that_is_not_there_holds_nothing_and_is_not_created(bootstrap: str) -> None:
    assert not holds(bootstrap, "nowhere", 0)
    assert led_partitions(bootstrap, "nowhere") == 0


def test_records_beside_those_that_were_acknowledged_fail_the_run(bootstrap: str) -> None:
    load = order(bootstrap, "twice", Load(100, 100))
    create_topic(bootstrap, "twice")
    run_client("librdkafka_load", "produce", *load)
    with pytest.raises(ClientError, match="the broker has 200 of 100"):
        run_client("librdkafka_load", "produce", *load)


@pytest.mark.parametrize("client", ["librdkafka_load", "own_load"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_record_that_is_read_wrong_fails_the_run(
    bootstrap: str, client: str, partitions: int
) -> None:
    topic = f"wrong-{client}-{partitions}"
    create_topic(bootstrap, topic, partitions=partitions)
    steady = SteadyLoad(1000, 100, 0.2, 0, partitions)
    run_client("steady_load", *order(bootstrap, topic, steady))
    expected = Load(200, 100, partitions)
    with pytest.raises(ClientError, match=r"read wrong|is another"):
        run_client(client, "consume", *order(bootstrap, topic, expected))


def test_each_record_of_a_steady_load_is_timed_but_for_the_warm_up(bootstrap: str) -> None:
    load = SteadyLoad(500, 100, 0.6, 0.4, partitions=2)
    create_topic(bootstrap, "steady", partitions=2)
    with start_client("tail_consumer", *order(bootstrap, "steady", load)) as tail:
        acknowledged = run_client("steady_load", *order(bootstrap, "steady", load))
        read = tail.result(60)
    sent = list(acknowledged.latencies)
    assert len(sent) == 300
    assert all(0 <= latency.at_s <= 0.6 for latency in sent)
    assert all(latency.ms > 0 for latency in sent)
    arrived = list(read.latencies)
    # The reader takes the first record that it sees for the load's first one.
    assert 290 <= len(arrived) <= 300
    assert acknowledged.figures["records"] == 500


def test_a_record_that_the_tail_never_sees_fails_the_run(bootstrap: str) -> None:
    load = order(bootstrap, "lost", SteadyLoad(1000, 100, 0.1, 0))
    create_topic(bootstrap, "lost")
    run_client("steady_load", *load)
    with pytest.raises(ClientError, match="record 1 of partition 0 came, not 0"):
        run_client("tail_consumer", *load, "--offsets", "1")


@pytest.mark.parametrize("in_flight", [1, 7])
@pytest.mark.parametrize("kind", ["produce", "fetch", "session_fetch"])
def test_the_bare_socket_counts_each_request_once(
    bootstrap: str, kind: str, in_flight: int
) -> None:
    topic = f"{kind}-{in_flight}"
    create_topic(bootstrap, topic)
    asked = ("--bootstrap", bootstrap, "--topic", topic, "--requests", "500")
    result = run_client("raw_requests", kind, *asked, "--in-flight", str(in_flight))
    assert result.figures["requests"] == 500
    # One more told the client what an answer looks like.
    assert end_offsets(bootstrap, topic) == [501 if kind == "produce" else 0]


def test_the_bare_socket_does_not_count_what_another_has_written(bootstrap: str) -> None:
    create_topic(bootstrap, "shared")
    run_client("librdkafka_load", "produce", *order(bootstrap, "shared", Load(5, 100)))
    asked = ("--bootstrap", bootstrap, "--topic", "shared", "--requests", "10")
    for kind, complaint in (("produce", "the first record"), ("fetch", "not empty")):
        with pytest.raises(ClientError, match=complaint):
            run_client("raw_requests", kind, *asked)


def test_a_client_that_is_killed_or_too_slow_is_no_result(bootstrap: str) -> None:
    create_topic(bootstrap, "endless")
    load = order(bootstrap, "endless", SteadyLoad(10, 100, 600, 0))
    with start_client("tail_consumer", *load) as tail:
        assert not tail.has_ended()
        with pytest.raises(ClientError, match="did not end within"):
            tail.result(0.01)
        assert tail.has_ended()
    with pytest.raises(MeasurementError, match="failed"):
        run_client("tail_consumer", *load, "--offsets", "1,2")


def test_the_tools_own_words_are_read() -> None:
    words = "100 steady state records sent, 19316.2 records/sec (18.86 MB/sec), 1 ms avg latency"
    assert steady_rate(["200 records sent, 5 records/sec", words]) == 19316.2
    with pytest.raises(LoadError):
        steady_rate(["nothing"])
    header = "time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
    row = "2026-11-22 04:27:11:268, 0, 0.0010, 0.0004, 17, 0.3627, 2605, 152, 0.0064, 6.5"
    assert progress([header, row, ""]) == [Progress(((4 * 60 + 27) * 60 + 11) * 1000 + 268, 17)]
