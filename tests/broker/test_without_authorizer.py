"""Who asks for access control entries is told that there is no authorizer, in Kafka's words."""

from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.tests import wire

from ..broker_process import BrokerThread, RawClient
from .acl_requests import creation, everything, sought


def test_acl_requests_are_announced_and_refused(tmp_path: Path) -> None:
    disabled = ErrorCode.SECURITY_DISABLED
    sentence = "No Authorizer is configured."
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        announced = client.ask(wire.ApiVersionsRequest(), 2, wire.ApiVersionsResponse).api_keys
        acls = {each.api_key: (each.min_version, each.max_version) for each in announced}
        assert [acls[key] for key in (29, 30, 31)] == [(1, 3)] * 3
        for version in (1, 2, 3):
            described = client.ask(sought(), version, wire.DescribeAclsResponse)
            assert described.error_code == disabled
            assert described.error_message == "No Authorizer is configured on the broker"
            created = client.ask(
                wire.CreateAclsRequest(creations=[creation("t")] * 2),
                version,
                wire.CreateAclsResponse,
            )
            assert [(each.error_code, each.error_message) for each in created.results] == [
                (disabled, sentence)
            ] * 2
            deleted = client.ask(
                wire.DeleteAclsRequest(filters=[everything()] * 2), version, wire.DeleteAclsResponse
            )
            assert [(each.error_code, each.error_message) for each in deleted.filter_results] == [
                (disabled, sentence)
            ] * 2


@pytest.mark.parametrize("name", ["__transaction_state", "__share_group_state"])
def test_an_internal_topic_that_metadata_creates_is_what_its_coordinator_needs(
    tmp_path: Path, name: str
) -> None:
    properties = {
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "5",
        "share.coordinator.state.topic.min.isr": "1",
    }
    expected = {
        "__transaction_state": {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "segment.bytes": "104857600",
            "unclean.leader.election.enable": "false",
        },
        "__share_group_state": {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": "1",
            "retention.ms": "-1",
            "segment.bytes": "104857600",
        },
    }
    with BrokerThread(tmp_path, properties) as broker, RawClient(broker.port) as client:
        metadata = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=name)])
        client.ask(metadata, 12, wire.MetadataResponse)
        (topic,) = client.ask(metadata, 12, wire.MetadataResponse).topics
        assert len(topic.partitions) == 5
        resource = wire.DescribeConfigsResource(resource_type=2, resource_name=name)
        configs = client.ask(
            wire.DescribeConfigsRequest(resources=[resource]), 1, wire.DescribeConfigsResponse
        )
    own = {each.name: each.value for each in configs.results[0].configs if each.config_source == 1}
    assert own == expected[name]
