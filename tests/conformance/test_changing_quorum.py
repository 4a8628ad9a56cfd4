"""A quorum of Apache Kafka and one node of ours whose voters change (KIP-853).

Each kind adds the other one and is removed by it, and each refuses the same requests with the same
words.
"""

import asyncio
import re
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import KafkaNode, run_tool
from tierlog.bench.harness.requests.probe import free_port
from tierlog.broker.handlers.describe_quorum import describe_quorum
from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid, uuid_to_string
from tierlog.clients.network.network import NetworkClient, NetworkConfig
from tierlog.clients.protocol.messages.add_raft_voter import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    Listener,
)
from tierlog.clients.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from tierlog.clients.record.batch import batches
from tierlog.clients.record.control import ControlRecordType
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.replication.raft.raft_messages import AddVoterRequest, RemoveVoterRequest
from tierlog.replication.raft.raft_options import RaftOptions
from tierlog.replication.raft.voter_set import (
    NO_VOTERS,
    Address,
    KRaftVersionRange,
    Voter,
    VoterKey,
    VoterSet,
)

from ..replication.quorum.quorum_nodes import LISTENER, QuorumNode, write_bootstrap
from ..waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.requires("java", "mvn")]

THEIRS, OURS = 1, 3
METADATA_LOG = "__cluster_metadata-0"
PATIENCE_MS = 60_000


class KafkaController(KafkaNode):
    """A controller of Kafka and nothing else, formatted as the first voter."""

    def __init__(
        self,
        directory: Path,
        cluster_id: str,
        addresses: Sequence[Address],
        directory_id: Uuid,
    ) -> None:
        port = addresses[0].port
        super().__init__(directory, port=port, heap="512m")
        self._bootstrap = ",".join(f"{each.host}:{each.port}" for each in addresses)
        self._cluster_id = cluster_id
        self._initial = f"{THEIRS}@127.0.0.1:{port}:{uuid_to_string(directory_id)}"

    def properties(self) -> Mapping[str, str]:
        address = f"127.0.0.1:{self.port}"
        return {
            "process.roles": "controller",
            "node.id": str(THEIRS),
            "listeners": f"{LISTENER}://{address}",
            "advertised.listeners": f"{LISTENER}://{address}",
            "controller.listener.names": LISTENER,
            "controller.quorum.bootstrap.servers": self._bootstrap,
            "log.dirs": str(self.directory / "logs"),
            "metadata.max.idle.interval.ms": "0",
        }

    def prepare(self, configuration: Path) -> None:
        (self.directory / "logs").mkdir(exist_ok=True)
        run_tool(
            "kafka-storage",
            "format",
            "-t",
            self._cluster_id,
            "-c",
            str(configuration),
            "--initial-controllers",
            self._initial,
        )

    def up(self, timeout_s: float) -> float:
        """Seconds until it listens: a controller has no answer to Metadata."""
        began = time.monotonic()
        wait_until(self._listens, timeout_s, self.log_tail)
        return time.monotonic() - began

    def _listens(self) -> bool:
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self.port)) == 0

    def metadata(self) -> bytes:
        """The metadata log as it is in its files."""
        files = sorted((self.directory / "logs" / METADATA_LOG).glob("*.log"))
        return b"".join(file.read_bytes() for file in files)


class Pair:
    """Kafka's controller, which leads at first, and a node of ours that observes it."""

    def __init__(self, directory: Path) -> None:
        environment = SystemEnvironment()
        self.cluster_id = uuid_to_string(environment.random_uuid())
        ports = {THEIRS: free_port(), OURS: free_port()}
        self.keys = {each: VoterKey(each, environment.random_uuid()) for each in ports}
        self.addresses = {each: Address("127.0.0.1", port) for each, port in ports.items()}
        self.kafka = KafkaController(
            directory / "kafka",
            self.cluster_id,
            [self.addresses[THEIRS], self.addresses[OURS]],
            self.keys[THEIRS].directory_id,
        )
        self.kafka.directory.mkdir()
        options = RaftOptions(
            *self.keys[OURS],
            self.cluster_id,
            endpoints={LISTENER: self.addresses[OURS]},
            bootstrap_servers=tuple(self.addresses.values()),
        )
        self.ours = QuorumNode(
            OURS, directory / "ours", NO_VOTERS, self.cluster_id, options=options
        )
        self.network = NetworkClient(
            f"127.0.0.1:{ports[THEIRS]}", environment, NetworkConfig(client_id="an operator")
        )

    async def start(self) -> None:
        await asyncio.to_thread(self.kafka.start)
        await self.ours.start()

    async def stop(self) -> None:
        await self.network.close()
        self.kafka.kill()
        await self.ours.kill()

    async def add_ours(self) -> AddRaftVoterResponse:
        """Ask Kafka to add our node, again and again until it is caught up."""
        request = AddRaftVoterRequest(
            cluster_id=self.cluster_id,
            timeout_ms=PATIENCE_MS,
            voter_id=OURS,
            voter_directory_id=self.keys[OURS].directory_id,
            listeners=[Listener(name=LISTENER, host="127.0.0.1", port=self.addresses[OURS].port)],
        )
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while True:
                response = await self.network.request_any(request, AddRaftVoterResponse)
                if response.error_code != ErrorCode.REQUEST_TIMED_OUT:
                    return response
                await asyncio.sleep(0.1)

    async def hold_the_same(self) -> None:
        """Wait until both disks hold the same log, byte for byte."""
        async with asyncio.timeout(60):
            while self.kafka.metadata() != self.ours.bytes_on_disk():  # noqa: ASYNC110  # files
                await asyncio.sleep(0.1)


def control_records(content: bytes) -> list[list[ControlRecordType]]:
    """The types of the records of each control batch."""
    return [
        [ControlRecordType.parse(record.key) for record in batch.records()]
        for batch in batches(content)
        if batch.is_control
    ]


async def test_each_kind_adds_and_removes_the_other(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    try:
        await pair.start()
        added = await pair.add_ours()
        assert (added.error_code, added.error_message) == (ErrorCode.NONE, None)
        await pair.hold_the_same()
        ours = pair.ours.quorum
        assert ours.voters.keys == frozenset(pair.keys.values())
        kinds = control_records(pair.ours.bytes_on_disk())
        assert kinds[0] == [
            ControlRecordType.LEADER_CHANGE,
            ControlRecordType.KRAFT_VERSION,
            ControlRecordType.KRAFT_VOTERS,
        ]
        assert [ControlRecordType.KRAFT_VOTERS] in kinds

        gone = await pair.network.request_any(
            RemoveRaftVoterRequest(
                cluster_id=pair.cluster_id,
                voter_id=THEIRS,
                voter_directory_id=pair.keys[THEIRS].directory_id,
            ),
            RemoveRaftVoterResponse,
        )
        assert gone.error_code == ErrorCode.NONE
        async with asyncio.timeout(60):
            while not ours.is_leader:  # noqa: ASYNC110  # an election
                await asyncio.sleep(0.05)
        assert set(ours.voters.ids) == {OURS}
        await pair.hold_the_same()
        described = describe_quorum(ours, 0, 2).topics[0].partitions[0]
        assert [each.replica_id for each in described.observers] == [THEIRS]

        back = AddVoterRequest(
            pair.cluster_id,
            *pair.keys[THEIRS],
            listeners=((LISTENER, pair.addresses[THEIRS]),),
            timeout_ms=PATIENCE_MS,
        )
        answer = await ours.handle_voter_change(back)
        assert answer.error_code is ErrorCode.NONE, answer
        assert sorted(ours.voters.ids) == [THEIRS, OURS]
        await pair.hold_the_same()
        assert not pair.ours.notifications.failures
    finally:
        await pair.stop()


async def test_both_kinds_refuse_with_the_same_words(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    alone = a_twin(pair, tmp_path / "twin")
    await pair.start()
    await alone.start()
    try:
        async with asyncio.timeout(60):
            while alone.notifications.high_watermark < 1:
                alone.notifications.moved.clear()
                await alone.notifications.moved.wait()
        for name, change in requests(pair).items():
            theirs = await asked(pair.network, change)
            response = await alone.quorum.handle_voter_change(change)
            assert (int(response.error_code), in_order(response.error_message)) == theirs, name
    finally:
        await alone.stop()
        await pair.stop()


def a_twin(pair: Pair, directory: Path) -> QuorumNode:
    """A node of ours with the id, the directory and the cluster of Kafka's."""
    address = Address("127.0.0.1", free_port())
    key = pair.keys[THEIRS]
    voter = Voter(key, {LISTENER: address}, KRaftVersionRange(0, 1))
    write_bootstrap(directory, VoterSet([voter]))
    options = RaftOptions(*key, pair.cluster_id, endpoints={LISTENER: address})
    return QuorumNode(THEIRS, directory, NO_VOTERS, pair.cluster_id, options=options)


def requests(pair: Pair) -> dict[str, AddVoterRequest | RemoveVoterRequest]:
    """What is refused, and why."""
    cluster, listeners = pair.cluster_id, ((LISTENER, Address("127.0.0.1", 1)),)
    nobody = VoterKey(9, pair.keys[OURS].directory_id)
    theirs = pair.keys[THEIRS]
    add = AddVoterRequest(cluster, *nobody, listeners, timeout_ms=2000)
    remove = RemoveVoterRequest(cluster, *nobody, timeout_ms=2000)
    return {
        "another cluster": add._replace(cluster_id="another"),
        "no directory": add._replace(voter_directory_id=ZERO_UUID),
        "no id": add._replace(voter_id=-1),
        "another listener": add._replace(listeners=(("OTHER", Address("127.0.0.1", 1)),)),
        "a voter already": add._replace(voter_id=THEIRS),
        "unreachable": add,
        "remove in another cluster": remove._replace(cluster_id="another"),
        "remove nobody": remove,
        "remove without an id": remove._replace(voter_id=-1),
        "remove another directory": remove._replace(voter_id=THEIRS),
        "remove the only voter": remove._replace(
            voter_id=THEIRS, voter_directory_id=theirs.directory_id
        ),
    }


async def asked(
    network: NetworkClient, change: AddVoterRequest | RemoveVoterRequest
) -> tuple[int, str | None]:
    if isinstance(change, RemoveVoterRequest):
        removed = await network.request_any(
            RemoveRaftVoterRequest(
                cluster_id=change.cluster_id,
                voter_id=change.voter_id,
                voter_directory_id=change.voter_directory_id,
            ),
            RemoveRaftVoterResponse,
        )
        return removed.error_code, in_order(removed.error_message)
    added = await network.request_any(
        AddRaftVoterRequest(
            cluster_id=change.cluster_id,
            timeout_ms=change.timeout_ms,
            voter_id=change.voter_id,
            voter_directory_id=change.voter_directory_id,
            listeners=[
                Listener(name=name, host=address.host, port=address.port)
                for name, address in change.listeners
            ],
        ),
        AddRaftVoterResponse,
    )
    return added.error_code, in_order(added.error_message)


def in_order(message: str | None) -> str | None:
    """A message without what depends on a resolver."""
    return None if message is None else re.sub(r"[\w.]*/(<unresolved>|[\d.]+):", "host:", message)
