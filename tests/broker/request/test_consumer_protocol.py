"""Whether groups of the consumer protocol are served: the file and the cluster's feature decide."""

from functools import partial
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode

from ... import waiting, wire
from ...broker_process import BrokerThread, RawClient

PROTOCOLS = "group.coordinator.rebalance.protocols"


def joined(client: RawClient) -> ErrorCode:
    request = wire.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="anna",
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    return ErrorCode(client.ask(request, 1, wire.ConsumerGroupHeartbeatResponse).error_code)


def described(client: RawClient) -> ErrorCode:
    request = wire.ConsumerGroupDescribeRequest(group_ids=["g"])
    (group,) = client.ask(request, 1, wire.ConsumerGroupDescribeResponse).groups
    return ErrorCode(group.error_code)


def has_coordinator(client: RawClient) -> bool:
    request = wire.FindCoordinatorRequest(key="g")
    return not client.ask(request, 2, wire.FindCoordinatorResponse).error_code


@pytest.mark.parametrize("protocols", ["classic", "classic,streams"])
def test_a_file_that_does_not_name_the_protocol_declines(tmp_path: Path, protocols: str) -> None:
    with BrokerThread(tmp_path, {PROTOCOLS: protocols}) as broker, RawClient(broker.port) as client:
        assert joined(client) is ErrorCode.UNSUPPORTED_VERSION
        assert described(client) is ErrorCode.UNSUPPORTED_VERSION


def test_the_feature_switches_it_off_and_on_while_the_broker_runs(tmp_path: Path) -> None:
    def level(wanted: int) -> None:
        change = wire.FeatureUpdateKey(feature="group.version", max_version_level=wanted)
        change.upgrade_type = 1 if wanted else 2
        request = wire.UpdateFeaturesRequest(feature_updates=[change])
        assert not client.ask(request, 2, wire.UpdateFeaturesResponse).error_code

    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        waiting.wait_until(partial(has_coordinator, client), 20, "no coordinator")
        assert joined(client) is ErrorCode.NONE
        assert described(client) is ErrorCode.NONE
        level(0)
        assert joined(client) is ErrorCode.UNSUPPORTED_VERSION
        assert described(client) is ErrorCode.UNSUPPORTED_VERSION
        level(1)
        assert joined(client) is ErrorCode.NONE
        assert described(client) is ErrorCode.NONE
