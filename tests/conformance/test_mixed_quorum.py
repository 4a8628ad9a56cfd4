"""One quorum of two Apache Kafka nodes and one node of ours.

Ours takes part as a voter: it votes, follows, is counted for the high watermark, leads for a moment
if it is elected, and resigns. No peer of Kafka stands in such a quorum otherwise, so each rule of
the protocol is tried against the real thing.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import KafkaNode, run_tool
from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.kafka_uuid import uuid_to_string
from tierlog.clients.runtime.environment import SystemEnvironment

from ..replication.quorum.quorum_nodes import QuorumNode, voters_at

pytestmark = [pytest.mark.slow, pytest.mark.requires("java", "mvn")]

OURS = 3
KAFKAS = (1, 2)
METADATA_LOG = "__cluster_metadata-0"


class KafkaVoter(KafkaNode):
    """A combined node of Kafka, formatted for a cluster that others belong to as well."""

    def __init__(
        self, directory: Path, cluster_id: str, port: int, properties: Mapping[str, str]
    ) -> None:
        super().__init__(directory, port=port, properties=properties, heap="512m")
        self._cluster_id = cluster_id

    def prepare(self, configuration: Path) -> None:
        logs = self.directory / "logs"
        logs.mkdir(exist_ok=True)
        if not (logs / "meta.properties").exists():
            run_tool("kafka-storage", "format", "-t", self._cluster_id, "-c", str(configuration))

    def metadata(self) -> bytes:
        """The metadata log as it is in its files."""
        files = sorted((self.directory / "logs" / METADATA_LOG).glob("*.log"))
        return b"".join(file.read_bytes() for file in files)


class MixedQuorum:
    """The three nodes; Kafka's run as processes of their own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._cluster_id = uuid_to_string(SystemEnvironment().random_uuid())
        self._ports = {node_id: free_port() for node_id in (*KAFKAS, OURS)}
        voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in self._ports.items())
        self.kafka: dict[int, KafkaVoter] = {}
        for node_id in KAFKAS:
            port = free_port()
            listeners = (
                f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{self._ports[node_id]}"
            )
            self.kafka[node_id] = KafkaVoter(
                directory / str(node_id),
                self._cluster_id,
                port,
                {
                    "node.id": str(node_id),
                    "listeners": listeners,
                    "controller.quorum.voters": voters,
                    # An idle quorum's log would grow while it is compared.
                    "metadata.max.idle.interval.ms": "0",
                },
            )
        self.ours = self._our_node()
        self.times_led = 0

    def _our_node(self) -> QuorumNode:
        voters = voters_at(self._ports)
        return QuorumNode(OURS, self._directory / str(OURS), voters, self._cluster_id)

    async def start(self) -> None:
        await self.ours.start()
        self._yielding = asyncio.create_task(self._yield_to_kafka())
        await asyncio.gather(*(asyncio.to_thread(node.start) for node in self.kafka.values()))

    async def _yield_to_kafka(self) -> None:
        """Resign whenever our node is elected: it has no controller, and no broker can register."""
        while True:
            quorum = self.ours.quorum
            if quorum.is_leader:
                self.times_led += 1
                quorum.resign(quorum.epoch)
            await asyncio.sleep(0.05)

    async def restart_ours(self) -> None:
        await self.ours.kill()
        self.ours = self._our_node()
        await self.ours.start()

    async def stop(self) -> None:
        self._yielding.cancel()
        for node in self.kafka.values():
            node.kill()
        await self.ours.kill()

    async def kafka_leads(self, not_in_epoch: int = -1) -> int:
        """Wait until a node of Kafka leads, as ours sees it."""
        quorum = self.ours.quorum
        async with asyncio.timeout(120):
            while True:
                if quorum.leader_id in self.kafka and quorum.epoch != not_in_epoch:
                    assert quorum.leader_id is not None
                    return quorum.leader_id
                await asyncio.sleep(0.05)

    async def create(self, topic: str, at: KafkaVoter) -> None:
        """Create a topic, and wait until our node holds it and knows that it is committed."""
        await asyncio.to_thread(
            run_tool,
            "kafka-topics",
            "--bootstrap-server",
            at.bootstrap,
            "--create",
            "--topic",
            topic,
        )
        async with asyncio.timeout(60):
            while topic.encode() not in self.ours.bytes_on_disk():
                self.ours.notifications.moved.clear()
                await self.ours.notifications.moved.wait()
        await self.ours.until_committed(self.ours.records_on_disk()[-1][0])

    async def hold_the_same(self) -> None:
        """Wait until the metadata logs on all disks are the same, byte for byte."""
        async with asyncio.timeout(60):
            while True:
                ours = self.ours.bytes_on_disk()
                if ours and all(node.metadata() == ours for node in self.kafka.values()):
                    return
                await asyncio.sleep(0.1)


async def described(node: KafkaVoter, how: str) -> str:
    tool = ("kafka-metadata-quorum", "--bootstrap-server", node.bootstrap, "describe", how)
    return (await asyncio.to_thread(run_tool, *tool)).stdout


async def test_our_voter_follows_votes_and_leads_among_kafkas(tmp_path: Path) -> None:
    quorum = MixedQuorum(tmp_path)
    try:
        await quorum.start()
        first = await quorum.kafka_leads()
        await quorum.create("of-all-three", quorum.kafka[first])
        await quorum.hold_the_same()

        replicas = await described(quorum.kafka[first], "--replication")
        rows = [row.split() for row in replicas.splitlines()]
        assert [row[-1] for row in rows if row and row[0] == str(OURS)] == ["Follower"], replicas
        status = await described(quorum.kafka[first], "--status")
        (voters,) = (row for row in status.splitlines() if row.startswith("CurrentVoters"))
        assert f'"id": {OURS}' in voters

        # Without our vote there is no other leader now.
        epoch = quorum.ours.quorum.epoch
        await asyncio.to_thread(quorum.kafka[first].kill)
        second = await quorum.kafka_leads(not_in_epoch=epoch)
        assert second != first
        await quorum.create("of-two", quorum.kafka[second])

        # Without our fetches nothing would be committed, and our log survives our death.
        await quorum.restart_ours()
        await quorum.create("after-our-death", quorum.kafka[second])
        await asyncio.to_thread(quorum.kafka[first].start)
        await quorum.create("of-all-three-again", quorum.kafka[first])
        await quorum.hold_the_same()
        assert not quorum.ours.notifications.failures
    finally:
        await quorum.stop()
