"""Nodes of a quorum on real sockets and a real disk, each with the product's core, shell and log.

Only the server is of the tests: it answers ApiVersions and the quorum's requests on a port of
127.0.0.1. What a node is told by its quorum is kept for the stories to look at.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.protocol.api import APIS, Api, ApiKey, request_class, response_class
from tierlog.clients.protocol.codec import decode, encode, encode_bytes
from tierlog.clients.protocol.connection import FrameReader, frame
from tierlog.clients.protocol.header import decode_request_header, response_header
from tierlog.clients.protocol.schema import Message
from tierlog.clients.record.batch import batches
from tierlog.clients.record.control import ControlRecordType
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.replication.metadata.metadata_log import MetadataLog, open_metadata_log
from tierlog.replication.metadata.metadata_log_config import MetadataLogConfig
from tierlog.replication.metadata.metadata_records import TopicRecord
from tierlog.replication.metadata.open_quorum import open_quorum
from tierlog.replication.metadata.raft_storage import RaftStorage
from tierlog.replication.metadata.snapshot_format import (
    SNAPSHOT_SUFFIX,
    QuorumRecord,
    SnapshotId,
    snapshot_batches,
)
from tierlog.replication.quorum.control_records import encode_voters
from tierlog.replication.quorum.quorum import Quorum
from tierlog.replication.quorum.quorum_channel import QuorumChannel
from tierlog.replication.quorum.quorum_requests import answer
from tierlog.replication.raft.raft import RaftCore
from tierlog.replication.raft.raft_options import RaftOptions
from tierlog.replication.raft.voter_set import Address, Voter, VoterKey, VoterSet
from tierlog.storage.directory.log_dir import LogDir
from tierlog.storage.files import FileRegion, OsFiles
from tierlog.storage.remote.remote_lineage import OffsetAndEpoch
from tierlog.tests import wire

LISTENER = "CONTROLLER"
SERVED: dict[int, Api] = {
    key: APIS[key]
    for key in (
        ApiKey.API_VERSIONS,
        ApiKey.FETCH,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.UPDATE_RAFT_VOTER,
    )
}
FOR_THE_ACTIVE_CONTROLLER: dict[int, Api] = {
    key: APIS[key]
    for key in (
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    )
}
"""What brokers ask of the active controller, which these nodes never are."""

ANNOUNCED = {**SERVED, **FOR_THE_ACTIVE_CONTROLLER}
_FRAME_BYTES_MAX = 64 << 20


class HasErrorCode(Protocol):
    """A response with an error for all of it."""

    error_code: int


def voters_at(ports: dict[int, int]) -> VoterSet:
    """Static voters by their ports."""
    return VoterSet(
        Voter(VoterKey(node_id), {LISTENER: Address("127.0.0.1", port)})
        for node_id, port in ports.items()
    )


def write_bootstrap(directory: Path, voters: VoterSet) -> None:
    """Format a directory for a quorum whose voters change, as `--initial-controllers` does."""
    log_directory = directory / "__cluster_metadata-0"
    log_directory.mkdir(parents=True)
    version = wire.KRaftVersionRecord(version=0, kraft_version=1)
    quorum = [
        QuorumRecord(ControlRecordType.KRAFT_VERSION, encode_bytes(version, 0)),
        QuorumRecord(ControlRecordType.KRAFT_VOTERS, encode_voters(voters)),
    ]
    content = snapshot_batches(SnapshotId(0, 0), (), last_timestamp_ms=0, now_ms=0, quorum=quorum)
    (log_directory / f"{SnapshotId(0, 0)}{SNAPSHOT_SUFFIX}").write_bytes(b"".join(content))


@dataclass
class Notifications:
    """What a quorum has told its process."""

    leaders: list[tuple[int | None, int]] = field(default_factory=list[tuple[int | None, int]])
    high_watermark: int = 0
    failures: list[str] = field(default_factory=list[str])
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    def on_leader(self, leader_id: int | None, epoch: int, epoch_start_offset: int) -> None:
        self.leaders.append((leader_id, epoch))
        self.moved.set()

    def on_high_watermark(self, offset: int) -> None:
        assert offset >= self.high_watermark, "the high watermark never falls"
        self.high_watermark = offset
        self.moved.set()

    def on_snapshot_loaded(self, snapshot_id: OffsetAndEpoch) -> None:
        self.moved.set()

    def on_failure(self, message: str) -> None:
        self.failures.append(message)
        self.moved.set()


class QuorumNode:
    """One node of the quorum."""

    def __init__(
        self,
        node_id: int,
        directory: Path,
        voters: VoterSet,
        cluster_id: str,
        *,
        options: RaftOptions | None = None,
    ) -> None:
        """`options` are those of a node that is more, or less, than one of the static voters."""
        own = voters.voter(node_id)
        self.options = options or RaftOptions(
            node_id, cluster_id=cluster_id, endpoints={} if own is None else own.endpoints
        )
        self.node_id = node_id
        self.notifications = Notifications()
        self.log_config = MetadataLogConfig()
        self._directory = directory
        self._voters = voters
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.executor = ThreadPoolExecutor(1)
        self.log_dir: LogDir
        self.log: MetadataLog
        self.storage: RaftStorage
        self.channel: QuorumChannel
        self.quorum: Quorum

    async def start(self) -> None:
        """Open the log, listen, and take part."""
        environment = SystemEnvironment()
        files = OsFiles()
        self._directory.mkdir(parents=True, exist_ok=True)
        now_ms = environment.wall_clock_ms()
        self.log_dir = LogDir(files, str(self._directory))
        self.log = open_metadata_log(self.log_dir, self.node_id, now_ms, config=self.log_config)
        core, self.storage = open_quorum(self.options, self.log, environment, self._voters)
        self.channel = QuorumChannel(self.node_id, environment)
        self.quorum = self.assemble(core, self.channel)
        address = self.options.endpoints.get(LISTENER)
        if address is not None:
            self._server = await asyncio.start_server(self._accept, address.host, address.port)
        await self.begin()

    def assemble(self, core: RaftCore, channel: QuorumChannel) -> Quorum:
        """The node around its core."""
        return Quorum(core, self.storage, channel, self.notifications, self.executor)

    async def begin(self) -> None:
        """Take part, once the node can be reached."""
        await self.quorum.start()

    async def kill(self) -> None:
        """End without a word to the others, as a killed process does."""
        await self.disconnect()
        self.executor.shutdown(wait=True)

    async def stop(self) -> None:
        """Stop gracefully."""
        await self.quorum.stop(5)
        await self.disconnect()
        self.executor.shutdown(wait=True)
        self.log.close(SystemEnvironment().wall_clock_ms())

    async def disconnect(self) -> None:
        """Close the node's sockets, and end its part in the quorum at once."""
        if self._server is not None:
            self._server.close()
        await self.quorum.abort()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        # Transports close in the next iteration of the event loop.
        await asyncio.sleep(0)

    def append(self, name: str) -> int:
        """Append a topic's record as the leader; returns its offset."""
        offset = self.storage.append([TopicRecord(name=name)], self.quorum.epoch)
        self.quorum.appended()
        return offset

    def bytes_on_disk(self) -> bytes:
        """The log as it is in its files."""
        files = sorted(Path(self.log.directory).glob("*.log"))
        return b"".join(file.read_bytes() for file in files)

    def records_on_disk(self) -> list[tuple[int, int]]:
        """Base offset and epoch of each batch in the files."""
        found = batches(self.bytes_on_disk())
        return [(batch.base_offset, batch.partition_leader_epoch) for batch in found]

    async def until_committed(self, offset: int, timeout_s: float = 60) -> None:
        """Wait until everything up to and including an offset is known to be committed."""
        async with asyncio.timeout(timeout_s):
            while self.notifications.high_watermark <= offset:
                self.notifications.moved.clear()
                await self.notifications.moved.wait()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader(_FRAME_BYTES_MAX)
        try:
            with suppress(ConnectionError, KafkaError):
                while data := await reader.read(1 << 16):
                    for request in frames.feed(memoryview(data)):
                        writer.writelines(await self._answer(memoryview(bytes(request))))
                        await writer.drain()
        finally:
            writer.transport.abort()

    async def _answer(self, request: memoryview) -> list[bytes]:
        header, position = decode_request_header(request, ANNOUNCED)
        key, version = header.api_key, header.api_version
        message, _ = decode(request_class(key), version, request, position)
        response = await self._response(message, version)
        head = response_header(key, version, header.correlation_id)
        chunks = frame([head, *encode(response, version)])
        flat: list[bytes] = []
        for chunk in chunks:
            if isinstance(chunk, bytes | bytearray | memoryview):
                flat.append(bytes(chunk))
            else:
                assert isinstance(chunk, FileRegion), "The log is in files."
                flat.append(chunk.read())
        return flat

    async def _response(self, message: Message, version: int) -> Message:
        if message.api_key == ApiKey.API_VERSIONS:
            return wire.ApiVersionsResponse(
                api_keys=[
                    wire.ApiVersion(
                        api_key=key, min_version=api.lowest_version, max_version=api.highest_version
                    )
                    for key, api in ANNOUNCED.items()
                ],
                supported_features=[wire.SupportedFeatureKey(name="kraft.version", max_version=1)],
            )
        if message.api_key in FOR_THE_ACTIVE_CONTROLLER:
            refused = response_class(message.api_key)()
            cast("HasErrorCode", refused).error_code = ErrorCode.NOT_CONTROLLER
            return refused
        return await answer(self.quorum, message, version)
