"""Properties that change while a broker runs are obeyed at once, and after a restart."""

from pathlib import Path
from random import Random

import pytest

from tierlog.broker.config.config_values import ConfigValues
from tierlog.broker.config.dynamic_config import DynamicConfig
from tierlog.broker.config.topic_defaults import TopicDefaults
from tierlog.clients.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tierlog.clients.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from tierlog.clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tierlog.clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.replication.control.controller_loop import PUBLICATION
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage
from tierlog.replication.metadata.metadata_records import ConfigRecord

from ...broker_process import BrokerThread, RawClient
from ...waiting import wait_until

BROKER, SET, DELETE = 4, 0, 1
SINCE_LOOKED = "kafka.log:type=LogCleanerManager,name=time-since-last-run-ms"


def alter(client: RawClient, name: str, value: str | None, broker: str = "") -> int:
    operation = DELETE if value is None else SET
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    return client.ask(request, 1, IncrementalAlterConfigsResponse).responses[0].error_code


def create(client: RawClient, name: str = "t") -> None:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
    assert client.ask(request, 7, CreateTopicsResponse).topics[0].error_code == 0


def produce(client: RawClient, size: int) -> int:
    batch = build_batch([Record(0, 0, None, bytes(size), ())])
    data = PartitionProduceData(index=0, records=memoryview(batch))
    topic = TopicProduceData(name="t", partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])
    answer = client.ask(request, 9, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def test_the_largest_message_changes_for_all_brokers_and_for_one(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        create(client)
        assert produce(client, 5_000) == 0
        assert alter(client, "message.max.bytes", "1000") == 0
        assert produce(client, 5_000) == 10
        assert alter(client, "message.max.bytes", "10000", broker="0") == 0
        assert produce(client, 5_000) == 0
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        assert produce(client, 9_000) == 0
        assert alter(client, "message.max.bytes", None, broker="0") == 0
        assert produce(client, 5_000) == 10
        assert alter(client, "message.max.bytes", None) == 0
        assert produce(client, 20_000) == 0


def test_connections_are_limited_from_now_on(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        assert alter(client, "max.connections.per.ip", "1") == 0
        with RawClient(broker.port) as other:
            assert other.is_closed()
        assert alter(client, "max.connections.per.ip.overrides", "127.0.0.1:2") == 0
        with RawClient(broker.port) as other:
            create(other)


def test_the_cleaner_hears_of_its_new_pause(tmp_path: Path) -> None:
    hour = {"log.cleaner.backoff.ms": "3600000"}
    with BrokerThread(tmp_path, hour) as thread, RawClient(thread.port) as client:
        assert thread.broker is not None
        metrics = thread.broker.metrics
        wait_until(lambda: dict(metrics.read())[SINCE_LOOKED] > 300, 60, "it looks again and again")
        assert alter(client, "log.cleaner.backoff.ms", "50") == 0
        wait_until(lambda: dict(metrics.read())[SINCE_LOOKED] < 300, 60, "it does not look again")


def test_idle_producers_are_forgotten_when_they_are_to_be(tmp_path: Path) -> None:
    often = {"producer.id.expiration.check.interval.ms": "100"}
    topic = TopicRequest(name="t", partition_indexes=[0])
    with BrokerThread(tmp_path, often) as broker, RawClient(broker.port) as client:
        create(client)
        now_ms = SystemEnvironment().wall_clock_ms()
        record = Record(0, now_ms, None, b"v", ())
        batch = build_batch([record], producer_id=7, producer_epoch=0, base_sequence=0)
        data = PartitionProduceData(index=0, records=memoryview(batch))
        produced = TopicProduceData(name="t", partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[produced])
        answer = client.ask(request, 9, ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == 0

        def known() -> int:
            found = client.ask(
                DescribeProducersRequest(topics=[topic]), 0, DescribeProducersResponse
            )
            return len(found.topics[0].partitions[0].active_producers)

        assert known() == 1
        assert alter(client, "producer.id.expiration.ms", "1") == 0
        wait_until(lambda: known() == 0, 60, "it is remembered")


def test_threads_that_there_are_not_are_taken_and_refused_as_in_kafka(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        assert alter(client, "num.io.threads", "16") == 0
        assert alter(client, "num.io.threads", "33") == 42
        assert alter(client, "num.io.threads", "7") == 42
        assert alter(client, "log.cleaner.threads", "0") == 42


def test_a_part_that_cannot_follow_keeps_no_other_from_it_and_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    values = ConfigValues({})
    supervisor = Supervisor(Random(0))
    config = DynamicConfig(values, 1, TopicDefaults(values), supervisor, None)
    image = ClusterImage("cluster")
    is_broken = False
    followed: list[int] = []
    others: list[int] = []

    def follow(values: ConfigValues) -> None:
        if is_broken:
            raise LookupError
        followed.append(values.integer("message.max.bytes"))

    def publish(*records: ConfigRecord) -> None:
        nonlocal image
        delta = ClusterDelta(image)
        delta.replay_all(records)
        image = delta.apply(image.offset + 1, 0)
        config.publish(image, delta)

    config.subscribe(follow)
    config.subscribe(lambda values: others.append(values.integer("message.max.bytes")))
    followed.clear()
    others.clear()
    is_broken = True
    publish(
        ConfigRecord(resource_type=BROKER, resource_name="", name="message.max.bytes", value="5000")
    )
    assert (followed, others) == ([], [5000])
    assert supervisor.failures == {PUBLICATION: 1}
    is_broken = False
    publish()
    publish()
    assert (followed, others) == ([5000], [5000])
    assert "Publication of metadata of " in caplog.text
