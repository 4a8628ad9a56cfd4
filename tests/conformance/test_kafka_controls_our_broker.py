"""Apache Kafka's controller takes a broker of ours: its life, and the requests that it forwards."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from tierlog.bench.harness.processes.kafka_peer import KafkaNode, run_tool
from tierlog.broker.cluster.broker_lifecycle import BrokerLifecycle, registration_request
from tierlog.broker.cluster.controller_channel import ControllerChannel
from tierlog.broker.cluster.controller_requests import DirectoryRequests, ProducerIdBlocks
from tierlog.broker.cluster.forwarder import ForwardedClient, forward
from tierlog.broker.cluster.lifecycle_config import LifecycleConfig
from tierlog.broker.cluster.refused_registration import reason_of
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.network.network import NetworkClient
from tierlog.clients.protocol.messages.broker_registration import BrokerRegistrationResponse
from tierlog.clients.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tierlog.clients.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from tierlog.clients.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from tierlog.clients.protocol.messages.describe_quorum_request import PartitionData, TopicData
from tierlog.clients.protocol.messages.metadata import MetadataRequest
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.replication.control.brokers.broker_life import BrokerLife
from tierlog.replication.control.brokers.registration import BrokerRegistrationData
from tierlog.replication.metadata.cluster_image import Endpoint
from tierlog.replication.metadata.metadata_records import SUPPORTED_FEATURES
from tierlog.tests.broker.cluster.scripted_controller import TIMEOUT_S, story

pytestmark = [pytest.mark.slow, pytest.mark.requires("java", "mvn")]

_OURS = 7
_CLIENT = ForwardedClient("an administrator", "User:ANONYMOUS", "127.0.0.1")
_FEATURES = {
    **SUPPORTED_FEATURES,
    "share.version": (0, 1),
    "streams.version": (0, 1),
}
"""What Kafka 4.3.1 finalizes in a new cluster."""


class _Quorum:
    """The only controller, at its address."""

    def __init__(self, port: int) -> None:
        self.leader_id = 1
        self.leader_address = ("127.0.0.1", port)

    def on_leader_change(self, callback: object) -> None:
        """It is always the same."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    directory: Path = tmp_path_factory.mktemp("kafka")
    with KafkaNode(directory, heap="512m") as node:
        yield node


def _channel(kafka: KafkaNode) -> ControllerChannel:
    port = int(kafka.properties()["controller.quorum.voters"].rpartition(":")[2])
    return ControllerChannel(
        _Quorum(port), SystemEnvironment(), client_id="ours", request_timeout_ms=30_000
    )


async def _cluster(kafka: KafkaNode) -> DescribeClusterResponse:
    network = NetworkClient(kafka.bootstrap, SystemEnvironment())
    try:
        request = DescribeClusterRequest(include_fenced_brokers=True)
        return await network.request_any(request, DescribeClusterResponse)
    finally:
        await network.close()


async def _registration(
    kafka: KafkaNode, broker_id: int, features: Mapping[str, tuple[int, int]]
) -> BrokerRegistrationData:
    environment = SystemEnvironment()
    cluster = await _cluster(kafka)
    return BrokerRegistrationData(
        broker_id=broker_id,
        cluster_id=cluster.cluster_id,
        incarnation_id=environment.random_uuid(),
        endpoints=[Endpoint("PLAINTEXT", "127.0.0.1", 9, 0)],
        features=features,
        directories=[environment.random_uuid()],
    )


@asynccontextmanager
async def _lifecycle(kafka: KafkaNode) -> AsyncGenerator[BrokerLifecycle]:
    """Our broker, whose only lie is that it has replayed its registration."""
    data = await _registration(kafka, _OURS, _FEATURES)
    fatal: asyncio.Queue[str] = asyncio.Queue()
    lifecycle = BrokerLifecycle(
        data,
        LifecycleConfig(heartbeat_interval_ms=500),
        _channel(kafka),
        lambda: lifecycle.broker_epoch,
        Supervisor(Random(1)),
        fatal.put_nowait,
    )
    try:
        yield lifecycle
        assert fatal.empty(), fatal.get_nowait()
    finally:
        await lifecycle.stop()


async def _until_fenced(kafka: KafkaNode, is_fenced: bool) -> None:
    fenced: dict[int, bool] = {}
    async with asyncio.timeout(TIMEOUT_S):
        while fenced.get(_OURS) is not is_fenced:
            fenced = {each.broker_id: each.is_fenced for each in (await _cluster(kafka)).brokers}


def test_our_broker_lives_by_kafkas_controller(kafka: KafkaNode) -> None:
    @story
    async def run() -> None:
        async with _lifecycle(kafka) as lifecycle, asyncio.timeout(TIMEOUT_S):
            lifecycle.start()
            await lifecycle.caught_up.wait()
            assert lifecycle.broker_epoch > 0
            await _until_fenced(kafka, True)
            lifecycle.ready_to_unfence()
            await lifecycle.unfenced.wait()
            await _until_fenced(kafka, False)
            await _needs_of_a_broker(kafka, lifecycle)
            await lifecycle.controlled_shutdown()
            assert lifecycle.life is BrokerLife.SHUTTING_DOWN
            await _until_fenced(kafka, True)

    run()


async def _needs_of_a_broker(kafka: KafkaNode, lifecycle: BrokerLifecycle) -> None:
    channel = _channel(kafka)
    try:
        blocks = ProducerIdBlocks(channel, _OURS, lambda: lifecycle.broker_epoch)
        first = await blocks.allocate(1000)
        assert await blocks.allocate(1000) == first + 1000
        stale = ProducerIdBlocks(channel, _OURS, lambda: 0)
        with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH") as refusal:
            await stale.allocate(1000)
        assert refusal.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        here = CreatableTopic(
            name="here",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[_OURS])],
        )
        answer = await forward(channel, CreateTopicsRequest(topics=[here]), 7, _CLIENT)
        assert isinstance(answer, CreateTopicsResponse)
        [topic] = answer.topics
        assert topic.error_code == ErrorCode.NONE, topic.error_message
        reports = DirectoryRequests(
            channel, _OURS, lambda: lifecycle.broker_epoch, lifecycle.report_offline
        )
        directory = SystemEnvironment().random_uuid()
        replica = TopicIdPartition(topic.topic_id, "here", 0)
        deleted = TopicIdPartition(SystemEnvironment().random_uuid(), "gone", 0)
        await reports.assign({replica: directory, deleted: directory})
    finally:
        await channel.close()


def test_kafkas_controller_executes_what_we_forward(kafka: KafkaNode) -> None:
    @story
    async def run() -> None:
        channel = _channel(kafka)
        try:
            topic = CreatableTopic(
                name="forwarded",
                num_partitions=3,
                replication_factor=1,
                configs=[CreatableTopicConfig(name="retention.ms", value="12345")],
            )
            bad = CreatableTopic(name="..", num_partitions=1, replication_factor=1)
            for version in (2, 5, 7):
                request = CreateTopicsRequest(topics=[topic, bad], timeout_ms=30_000)
                answer = await forward(channel, request, version, _CLIENT)
                assert isinstance(answer, CreateTopicsResponse)
                codes = {each.name: each.error_code for each in answer.topics}
                first = version == 2
                assert codes == {
                    "forwarded": 0 if first else ErrorCode.TOPIC_ALREADY_EXISTS,
                    "..": ErrorCode.INVALID_TOPIC_EXCEPTION,
                }
            partitions = [PartitionData(partition_index=0)]
            quorum = await forward(
                channel,
                DescribeQuorumRequest(
                    topics=[TopicData(topic_name="__cluster_metadata", partitions=partitions)]
                ),
                2,
                _CLIENT,
            )
            assert isinstance(quorum, DescribeQuorumResponse)
            assert quorum.topics[0].partitions[0].leader_id == 1
            # What may not be forwarded is refused as a whole.
            with pytest.raises(KafkaError, match="INVALID_REQUEST") as refusal:
                await forward(channel, MetadataRequest(topics=[]), 12, _CLIENT)
            assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        finally:
            await channel.close()

    run()


def test_a_broker_must_announce_each_level_that_is_finalized(kafka: KafkaNode) -> None:
    """Not to announce a feature, or only its level 0, is the same: it is refused."""

    @story
    async def run() -> None:
        channel = _channel(kafka)
        try:
            for number, (feature, levels, error) in enumerate(
                (
                    ("share.version", None, ErrorCode.UNSUPPORTED_VERSION),
                    ("share.version", (0, 0), ErrorCode.UNSUPPORTED_VERSION),
                    ("streams.version", (0, 0), ErrorCode.UNSUPPORTED_VERSION),
                    ("streams.version", (2, 3), ErrorCode.UNSUPPORTED_VERSION),
                    ("share.version", (0, 7), ErrorCode.NONE),
                    ("nothing.version", (0, 1), ErrorCode.NONE),
                )
            ):
                features = dict(_FEATURES)
                features.pop(feature, None)
                if levels is not None:
                    features[feature] = levels
                data = await _registration(kafka, _OURS + 1 + number, features)
                answer = await channel.request(
                    registration_request(data), BrokerRegistrationResponse, 30_000
                )
                assert answer.error_code == error, (feature, levels)
        finally:
            await channel.close()

    run()


def test_what_our_broker_lacks_is_named_and_can_be_lowered(kafka: KafkaNode) -> None:
    @story
    async def run() -> None:
        data = await _registration(kafka, _OURS + 100, SUPPORTED_FEATURES)
        request = registration_request(data)
        channel = _channel(kafka)
        try:
            answer = await channel.request(request, BrokerRegistrationResponse, 30_000)
            code = ErrorCode(answer.error_code)
            assert code is ErrorCode.UNSUPPORTED_VERSION
            reason = await reason_of(code, channel, SUPPORTED_FEATURES, 30_000)
            assert "share.version=1, streams.version=1" in reason
            _, command, _ = reason.split("`")
            tool, *arguments = command.split()
            server = ("--bootstrap-server", kafka.bootstrap)
            run_tool(tool.removesuffix(".sh"), *server, *arguments)
            again = await channel.request(request, BrokerRegistrationResponse, 30_000)
            assert again.error_code == ErrorCode.NONE
        finally:
            await channel.close()

    run()
