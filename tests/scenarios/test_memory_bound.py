"""A crowd of clients at once: the broker's memory stays what it was, and whoever works is served.

A thousand connections that say nothing, fifty consumers that ask for megabytes and hardly take
them, and a frame of the largest size that is allowed. What is sent from local files costs nothing
to those who do not take it; what comes from the tier stands in memory, a chunk for each of them.
"""

import resource
import socket
import struct
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.tests import wire
from tierlog.tests.broker_process import RawClient
from tierlog.tests.scenarios.foreign_clients import CLIENTS
from tierlog.tests.scenarios.plain_io import produce, read, value_of
from tierlog.tests.waiting import wait_until

IDLE, SLOW = 1_000, 50
MEBIBYTE = 1 << 20
FRAME = 100 * MEBIBYTE
LARGE = 50 * MEBIBYTE
LOCAL, TIERED, WORK = "local", "tiered", "work"
RECORDS = 48 * 1024
"""Of a KiB each: two segments of the tiered topic and a half."""
CHUNK = 4 * MEBIBYTE
PROPERTIES = {
    "log.retention.check.interval.ms": "200",
    "remote.log.manager.task.interval.ms": "100",
    "log.initial.task.delay.ms": "50",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "remote.log.chunk.size.bytes": str(CHUNK),
    "remote.log.chunk.cache.total.size.bytes": str(4 * CHUNK),
}
TIERED_CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": str(20 * MEBIBYTE),
    "local.retention.bytes": "1048576",
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TierlogNode]:
    with (
        many_files_may_be_open(),
        TierlogNode(tmp_path_factory.mktemp("crowded"), properties=PROPERTIES) as node,
    ):
        for topic, config in ((LOCAL, {}), (TIERED, TIERED_CONFIG), (WORK, {})):
            CLIENTS["confluent-kafka"].create_topic(node.bootstrap, topic, config)
        for topic in (LOCAL, TIERED):
            values = map(value_of, range(RECORDS))
            sent = produce(node.bootstrap, topic, values, timeout_ms=60_000)
            assert len(sent.acknowledged) == RECORDS
        folder = node.directory / "logs" / f"{TIERED}-0"
        wait_until(lambda: len(list(folder.glob("*.log"))) == 1, 60, lambda: node.output)
        work(node)
        yield node
        assert "Traceback" not in node.output


@contextmanager
def many_files_may_be_open() -> Generator[None]:
    """For the broker as well, which inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * IDLE)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident(node: TierlogNode) -> int:
    status = Path(f"/proc/{node.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def work(node: TierlogNode) -> None:
    """What others do meanwhile: write, and read what is near and what is in the tier."""
    values = [value_of(number) for number in range(2_000)]
    sent = produce(node.bootstrap, WORK, values, timeout_ms=60_000)
    assert len(sent.acknowledged) == len(values)
    first = sent.acknowledged[0][0]
    found = read(node.bootstrap, WORK, len(values), start=first, timeout_s=60)
    assert [value for _, value in found] == values
    for topic in (LOCAL, TIERED):
        found = read(node.bootstrap, topic, 5_000, timeout_s=60)
        assert found == [(number, value_of(number)) for number in range(5_000)]


def connect(node: TierlogNode) -> socket.socket:
    return socket.create_connection(("127.0.0.1", node.port), 20)


def slow_consumers(node: TierlogNode, topic: str, stack: ExitStack) -> list[RawClient]:
    """They have asked for the topic's beginning, again and again."""
    asked = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=topic)])
    clients = [stack.enter_context(RawClient(node.port)) for _ in range(SLOW)]
    topic_id = clients[0].ask(asked, 12, wire.MetadataResponse).topics[0].topic_id
    partition = wire.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=LARGE)
    fetch = wire.FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=LARGE,
        session_epoch=-1,
        topics=[wire.FetchTopic(topic_id=topic_id, partitions=[partition])],
    )
    for client in clients:
        # The tier may answer some of them too late, and then with nothing.
        for _ in range(20):
            client.send(fetch, 13)
    return clients


def take_a_little(client: RawClient) -> None:
    """So that more is sent after it."""
    with suppress(BlockingIOError):
        assert client.socket.recv(4096, socket.MSG_DONTWAIT)


def test_idle_connections_slow_consumers_and_a_large_frame_at_once(node: TierlogNode) -> None:
    before = resident(node)
    with ExitStack() as crowd:
        for _ in range(IDLE):
            crowd.enter_context(connect(node))
        announced = crowd.enter_context(connect(node))
        announced.sendall(struct.pack(">i", FRAME) + bytes(MEBIBYTE))
        slow = slow_consumers(node, LOCAL, crowd)
        for _ in range(3):
            work(node)
            for client in slow:
                take_a_little(client)
            announced.sendall(bytes(MEBIBYTE))
            assert resident(node) < 2 * before
    work(node)
    assert resident(node) < 2 * before


def test_a_frame_of_the_largest_size_is_gone_when_it_has_been_answered(node: TierlogNode) -> None:
    before = resident(node)
    with connect(node) as client:
        client.sendall(struct.pack(">i", FRAME))
        for _ in range(FRAME // MEBIBYTE):
            client.sendall(bytes(MEBIBYTE))
        # No request of any kind: the connection is closed.
        assert client.recv(1) == b""
    work(node)
    assert resident(node) < 2 * before


def test_slow_consumers_of_the_tier_hold_a_chunk_each(node: TierlogNode) -> None:
    before = resident(node)
    with ExitStack() as crowd:
        slow = slow_consumers(node, TIERED, crowd)
        for _ in range(5):
            work(node)
            for client in slow:
                take_a_little(client)
            # A chunk for each, and as much as some of them while they are being read.
            assert resident(node) < before + 3 * SLOW * CHUNK // 2
    wait_until(lambda: resident(node) < 2 * before, 30, lambda: f"{resident(node)} {before}")
    work(node)
