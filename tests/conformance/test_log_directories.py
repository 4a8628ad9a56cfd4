"""Replicas move between log directories: Kafka's tools against both, and whole nodes changed.

Everything is done to Apache Kafka and to us, and what the tools say must be the same. Then each
finds a move that the other has not finished, and ends it.
"""

import json
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.broker_node import BrokerNode
from tierlog.bench.harness.processes.kafka_peer import KafkaNode
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.clients.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tierlog.clients.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tierlog.clients.protocol.schema import Message

from ..broker_process import RawClient
from ..waiting import wait_until
from .dump_log import check_segments
from .log_directory_plans import (
    TOPIC,
    Plan,
    described,
    home,
    is_log,
    other,
    properties,
    tool,
)
from .real_records import (
    Sending,
    Sent,
    as_consumed,
    check_against,
    consume,
    create,
    produce,
)
from .side_by_side import SideBySide, at

pytestmark = pytest.mark.requires("java", "mvn")
CONFIG = {"segment.bytes": "1048576"}
RECORDS = 2_500
"""More than two megabytes: the second one waits for the throttle."""

WAIT_S = 180
"""Each look is a JVM of its own, which takes its time on a busy machine."""

SLOW = "100"
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"


def ours_at(directory: Path) -> TierlogNode:
    untiered = {"remote.log.storage.system.enable": "false"}
    return TierlogNode(directory, properties={**properties(directory), **untiered})


def kafka_at(directory: Path) -> KafkaNode:
    return KafkaNode(directory, heap="512m", properties=properties(directory))


def is_half_way(node: BrokerNode) -> bool:
    """Whether a future log has some records, and not all."""
    return any(
        size > 0 and lag > 0 for (_, is_future), (size, lag) in described(node).items() if is_future
    )


def begin_slowly(node: BrokerNode) -> tuple[dict[int, Sent], str]:
    """A topic with records, and a move to the other directory that waits; where it began."""
    create(node.bootstrap, TOPIC, CONFIG)
    sent = produce(node.bootstrap, TOPIC, Sending("first", "none"), RECORDS)
    source = home(node.directory)
    plan = Plan(node, node.directory / other(source))
    plan("--execute", "--replica-alter-log-dirs-throttle", SLOW)
    wait_until(partial(is_half_way, node), WAIT_S, lambda: repr(described(node)))
    return sent, source


def hurry(node: BrokerNode) -> None:
    """Take the throttle away."""
    entity = ("--entity-type", "brokers", "--entity-name", "1")
    tool(node, "kafka-configs", "--alter", *entity, "--delete-config", THROTTLE)


def finish(node: BrokerNode, source: str, sent: Mapping[int, Sent]) -> None:
    """A move that was begun before this node started ends, and every record is there."""
    assert is_half_way(node)
    hurry(node)
    target = other(source)
    wait_until(
        lambda: set(described(node)) == {(target, False)}, WAIT_S, lambda: repr(described(node))
    )
    # Kafka renames the new directory first.
    wait_until(lambda: not is_log(node.directory / source), WAIT_S, "the old log stays")
    assert home(node.directory) == target
    assert consume(node.bootstrap, TOPIC, len(sent)) == as_consumed(sent)


@contextmanager
def both(directory: Path) -> Generator[tuple[KafkaNode, TierlogNode], None, None]:
    for name in ("kafka", "ours"):
        (directory / name / "second").mkdir(parents=True)
    kafka, ours = kafka_at(directory / "kafka"), ours_at(directory / "ours")
    with ExitStack() as stack:
        stack.enter_context(kafka)
        stack.enter_context(ours)
        yield kafka, ours


def admin_story(node: BrokerNode) -> list[str]:
    """What an admin does with a move, and what the tools say to it."""
    _, source = begin_slowly(node)
    target = other(source)
    back, there = (Plan(node, node.directory / name) for name in (source, target))
    logs = ("--describe", "--topic-list", TOPIC)
    said = [there("--verify")]
    description = json.loads(tool(node, "kafka-log-dirs", *logs).splitlines()[2])
    futures = [
        (Path(each["logDir"]).name == target, log["isFuture"], log["offsetLag"] > 0)
        for each in description["brokers"][0]["logDirs"]
        for log in each["partitions"]
    ]
    said.append(repr(sorted(futures)))
    said.append(there("--execute"))
    said.append(there("--cancel"))
    wait_until(
        lambda: set(described(node)) == {(source, False)},
        WAIT_S,
        lambda: f"the move goes on: {described(node)} after {said}",
    )
    said += [back("--execute"), back("--verify"), there("--list")]
    there("--execute", "--replica-alter-log-dirs-throttle", "10000000")
    wait_until(there.is_done, WAIT_S, lambda: repr(described(node)))
    said.append(there("--verify"))
    nowhere = Plan(node, Path("/nowhere"))
    said += [nowhere("--execute"), nowhere("--verify"), nowhere("--cancel")]
    neutral = {str(node.directory / target): "<target>", str(node.directory / source): "<source>"}
    for path, name in neutral.items():
        said = [each.replace(path, name) for each in said]
    return said


def test_the_tools_say_of_us_what_they_say_of_kafka(tmp_path: Path) -> None:
    with both(tmp_path) as nodes:
        kafka, ours = (admin_story(node) for node in nodes)
    assert ours == kafka
    assert "is still in progress" in ours[0]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Generator[SideBySide, None, None]:
    with both(tmp_path_factory.mktemp("pair")) as nodes:
        for node in nodes:
            create(node.bootstrap, TOPIC, CONFIG)
        with SideBySide(nodes[0].port, nodes[1].port) as brokers:
            yield brokers


def paths_of(client: RawClient) -> tuple[str, str]:
    """The log directories, that of the partition first."""
    answer = client.ask(DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse)
    has_log = {
        result.log_dir: any(topic.name == TOPIC for topic in result.topics)
        for result in answer.results
    }
    first, second = sorted(has_log, key=lambda path: not has_log[path])
    return first, second


Where = Mapping[str, Mapping[str, list[int]]]
"""Topics and partitions by directory, which is put in for its name."""


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("where", "code"),
    [
        ({}, None),
        ({"{here}": {TOPIC: [0]}}, 0),
        ({"{here}/": {TOPIC: [0]}}, 57),
        ({"nowhere": {TOPIC: [0]}}, 57),
        ({"{there}": {"unknown": [0]}}, 3),
        ({"{there}": {TOPIC: [7]}}, 3),
        ({"{there}": {TOPIC: [-1]}}, 3),
        ({"{there}": {"x" * 249: [0]}}, 17),
        ({"{there}": {"": [0]}}, 3),
        ({"{there}": {TOPIC: [0]}, "{here}": {TOPIC: [0]}}, 0),
        ({"{here}": {TOPIC: []}}, None),
    ],
)
def test_answers_are_kafka_s(
    pair: SideBySide, version: int, where: Where, code: int | None
) -> None:
    def request(client: RawClient) -> Message:
        here, there = paths_of(client)
        return AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path.format(here=here, there=there),
                    topics=[
                        AlterReplicaLogDirTopic(name=name, partitions=partitions)
                        for name, partitions in topics.items()
                    ],
                )
                for path, topics in where.items()
            ]
        )

    answer = pair.same_of(*pair.ask_each(request, version))
    if code is None:
        assert at(answer, "results") == []
    else:
        assert at(answer, "results", 0, "partitions", 0, "error_code") == code


def test_kafka_ends_a_move_that_we_were_killed_in(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    ours, kafka = ours_at(tmp_path), kafka_at(tmp_path)
    ours.start()
    try:
        sent, source = begin_slowly(ours)
    finally:
        ours.kill()
    with kafka:
        finish(kafka, source, sent)
    with ours:
        assert consume(ours.bootstrap, TOPIC, len(sent)) == as_consumed(sent)
    check_against(check_segments(tmp_path / other(source) / f"{TOPIC}-0"), sent)
    check_segments(tmp_path / "logs" / "__cluster_metadata-0", "--cluster-metadata-decoder")


def test_we_end_a_move_that_kafka_has_left(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    ours, kafka = ours_at(tmp_path), kafka_at(tmp_path)
    with kafka:
        sent, source = begin_slowly(kafka)
    with ours:
        finish(ours, source, sent)
        sent |= produce(ours.bootstrap, TOPIC, Sending("second", "lz4"), 300)
    with kafka:
        assert consume(kafka.bootstrap, TOPIC, len(sent)) == as_consumed(sent)
        assert home(tmp_path) == other(source)
