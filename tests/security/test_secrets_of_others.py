"""Secrets that a broker hands on: to an object store, and to the nodes of a local cluster."""

import os
from pathlib import Path

import pytest

from tierlog.clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.replication.metadata.cluster_image import ConfigResourceType
from tierlog.testing import Cluster
from tierlog.tests import wire

from ..broker_process import BrokerProcess, RawClient
from ..scenarios.object_store import BUCKET, ObjectStore
from ..waiting import wait_until
from .planted_secrets import PlantedSecrets, environments, files_below, process_list

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGGERS = ConfigResourceType.BROKER_LOGGER
TIERED = {"remote.storage.enable": "true", "segment.bytes": "1048576", "retention.ms": "-1"}


def fill(client: RawClient, topic: str) -> None:
    """Make a tiered topic with two closed segments."""
    made = wire.CreatableTopic(
        name=topic,
        num_partitions=1,
        replication_factor=1,
        configs=[
            wire.CreatableTopicConfig(name=name, value=value) for name, value in TIERED.items()
        ],
    )
    answer = client.ask(wire.CreateTopicsRequest(topics=[made]), 7, wire.CreateTopicsResponse)
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message
    batch = bytes(build_batch([Record(0, 0, None, b"x" * 700_000)]))
    data = [
        wire.TopicProduceData(name=topic, partition_data=[wire.PartitionProduceData(records=batch)])
    ]
    for _ in range(3):
        request = wire.ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data)
        client.ask(request, 9, wire.ProduceResponse)


def raise_levels(client: RawClient) -> None:
    """Let every logger there is say all it can."""
    asked = wire.DescribeConfigsResource(resource_type=LOGGERS, resource_name="0")
    question = wire.DescribeConfigsRequest(resources=[asked])
    described = client.ask(question, 4, wire.DescribeConfigsResponse).results[0].configs
    names = [each.name for each in described]
    assert any(each.startswith("botocore.") for each in names)
    changes = [AlterableConfig(name=name, value="TRACE") for name in names]
    resource = AlterConfigsResource(resource_type=LOGGERS, resource_name="0", configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    answer = client.ask(request, 1, IncrementalAlterConfigsResponse)
    assert answer.responses[0].error_code == 0, answer.responses[0].error_message


@pytest.mark.long
def test_the_credentials_of_an_object_store_are_in_no_line_of_its_library(tmp_path: Path) -> None:
    """All levels of all loggers, while the store works and after it has gone."""
    planted = PlantedSecrets()
    store = ObjectStore(tmp_path)
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(tmp_path / "data"),
        "rsm.config.url": f"s3://{BUCKET}/broker",
        "rsm.config.option.endpoint_url": store.endpoint,
        "rsm.config.option.key": planted.text("key"),
        "rsm.config.option.secret": planted.text("secret"),
        "rsm.config.option.token": planted.text("session token"),
        "rsm.config.option.s3_additional_kwargs.SSECustomerKey": planted.text("key of objects"),
        "remote.log.manager.task.interval.ms": "200",
        "log.initial.task.delay.ms": "100",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    }
    file = tmp_path / "server.properties"
    file.write_text("\n".join(f"{name}={value}" for name, value in properties.items()))
    store.start()
    try:
        with BrokerProcess(["--config", str(file), "--log-level", "ALL"], tmp_path) as broker:
            with RawClient(broker.port) as client:
                fill(client, "orders")
                bucket = store.bucket()
                wait_until(lambda: len(bucket.find(BUCKET)) > 1, 60, broker.log.read_text)
                raise_levels(client)
                before = len(bucket.find(BUCKET))
                fill(client, "logged")
                wait_until(lambda: len(bucket.find(BUCKET)) > before, 60, broker.log.read_text)
                store.stop()
                fill(client, "more")
                wait_until(
                    lambda: " WARNING tierlog.tiering" in broker.log.read_text(),
                    120,
                    lambda: broker.log.read_text()[-3_000:],
                )
            places = process_list() | environments(broker.process.pid)
            places["ready line"] = broker.ready_line.encode()
            broker.stop()
    finally:
        store.stop()
    places |= files_below(tmp_path / "data")
    places["log"] = broker.log.read_bytes()
    assert b"DEBUG tierlog.tiering" in places["log"]
    assert planted.leaks(places) == set()


@pytest.mark.long
def test_the_properties_of_a_local_cluster_are_in_no_command_line(tmp_path: Path) -> None:
    planted = PlantedSecrets()
    properties = {
        "my.plugin.password": planted.text("property of a plugin"),
        "sasl.jaas.config": f"{PLAIN_MODULE} required password={planted.text('jaas')};",
    }
    with Cluster(brokers=2, directory=str(tmp_path / "cluster"), properties=properties) as it:
        assert it.bootstrap_servers
        places = process_list() | environments(os.getpid())
    files = files_below(tmp_path / "cluster")
    needed = [each for each in files if "/" not in each and each.endswith((".properties", ".json"))]
    for name in needed:
        # The nodes and the next start read them from there; nobody else can.
        assert (tmp_path / "cluster" / name).stat().st_mode & 0o077 == 0
        del files[name]
    assert planted.leaks(places | files) == set()
