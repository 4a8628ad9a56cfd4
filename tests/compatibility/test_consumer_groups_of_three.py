"""Unmodified clients in a group of three, which the coordinator shares out (KIP-848).

Arrival, seek, pause, departure, death, commit, resume; both of the server's assignors; topics by
name and by pattern.
"""

from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import run_tool

from ..broker_process import BrokerProcess
from .group_stories import (
    Scene,
    a_static_member_comes_back,
    run_of,
    three_members_come_and_go,
    topics_are_found_by_pattern,
)
from .topics import create_topic, produce

LIBRDKAFKA_AND_JAVA = [
    run_of("confluent", "uniform"),
    run_of("confluent", "range"),
    run_of("java", "uniform"),
    run_of("java", "range"),
]
FRANZ_GO = [run_of("franz-go", "uniform"), run_of("franz-go", "range")]


@pytest.mark.parametrize(("client", "assignor"), [*LIBRDKAFKA_AND_JAVA, *FRANZ_GO])
def test_three_members_come_seek_pause_and_go(
    shared_broker: BrokerProcess, tmp_path: Path, client: str, assignor: str
) -> None:
    topic = f"{client}-{assignor}"
    scene = Scene(shared_broker.bootstrap, topic, client, assignor, tmp_path, "consumer")
    three_members_come_and_go(scene)


# franz-go 1.22.2 leaves without its instance id, so that its successor waits for a whole session.
@pytest.mark.parametrize(("client", "assignor"), LIBRDKAFKA_AND_JAVA)
def test_a_static_member_that_restarts_gets_its_partitions_back_and_disturbs_nobody(
    patient_broker: BrokerProcess, tmp_path: Path, client: str, assignor: str
) -> None:
    topic = f"static-{client}-{assignor}"
    scene = Scene(patient_broker.bootstrap, topic, client, assignor, tmp_path, "consumer")
    a_static_member_comes_back(scene, dies=False)


@pytest.mark.parametrize("client", [run_of(client) for client in ("confluent", "java", "franz-go")])
def test_three_members_share_the_topics_that_match_a_pattern(
    shared_broker: BrokerProcess, tmp_path: Path, client: str
) -> None:
    topic = f"pattern-{client}"
    scene = Scene(shared_broker.bootstrap, topic, client, "uniform", tmp_path, "consumer")
    topics_are_found_by_pattern(scene)


@pytest.mark.requires("java", "mvn")
def test_the_console_consumer_goes_on_in_its_group(shared_broker: BrokerProcess) -> None:
    bootstrap, topic = shared_broker.bootstrap, "console"
    create_topic(bootstrap, topic)
    for per_partition in (10, 1):
        produce(bootstrap, per_partition, topic)
        read = run_tool(
            "kafka-console-consumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group", topic),
            *("--consumer-property", "group.protocol=consumer", "--from-beginning"),
            *("--max-messages", str(6 * per_partition), "--timeout-ms", "60000"),
        )
        values = [line for line in read.stdout.splitlines() if line.isdigit()]
        assert values.count("0") == 6
        assert len(values) == 6 * per_partition
