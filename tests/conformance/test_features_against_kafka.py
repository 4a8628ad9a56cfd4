"""Features are finalised, and resources with a configuration listed, as Apache Kafka does it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import run_tool
from tierlog.clients.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tierlog.clients.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tierlog.clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tierlog.clients.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tierlog.clients.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)

from ..broker_process import BrokerProcess
from ..waiting import wait_until
from .side_by_side import SideBySide, both_brokers, plain

pytestmark = pytest.mark.recorded

# Level and kind of change of metadata.version.
KAFKAS_OWN = frozenset({"share.version", "streams.version", "kraft.version"})
"""Features of Kafka's that a lone node of ours does not have."""
LEVELS = [(30, 1), (31, 1), (29, 1), (29, 2), (29, 3), (3, 2), (0, 3), (30, 4), (30, 2)]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SideBySide]:
    with both_brokers(tmp_path_factory.mktemp("both")) as ports, SideBySide(*ports) as both:
        yield both


def test_levels_are_refused_and_kept_as_by_kafka(both: SideBySide) -> None:
    for level, kind in LEVELS:
        for version in range(3):
            change = FeatureUpdateKey(feature="metadata.version", max_version_level=level)
            if version:
                change.upgrade_type = kind
            both.same(UpdateFeaturesRequest(feature_updates=[change]), version)
    unknown = FeatureUpdateKey(feature="nonsense", max_version_level=1)
    both.same(UpdateFeaturesRequest(feature_updates=[unknown]), 2)


def test_group_version_is_lowered_and_raised_as_by_kafka(both: SideBySide) -> None:
    """From a new cluster's level, 1, to none and back."""
    levels = ((1, 1), (0, 1), (2, 1), (-1, 3), (0, 2), (0, 3), (1, 2), (1, 3), (1, 1), (0, 3))
    for level, kind in (*levels, (1, 1), (1, 4), (0, 0)):
        for validate_only in (True, False):
            change = FeatureUpdateKey(
                feature="group.version", max_version_level=level, upgrade_type=kind
            )
            request = UpdateFeaturesRequest(feature_updates=[change], validate_only=validate_only)
            both.same(request, 2)


Levels = tuple[str, int, int]


def _shared(features: set[Levels]) -> set[Levels]:
    return {each for each in features if each[0] not in KAFKAS_OWN}


def announced(both: SideBySide, version: int) -> list[ApiVersionsResponse]:
    """What Kafka and we say of features in ApiVersions, in this order."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answers = both.ask(request, version)
    found: list[ApiVersionsResponse] = []
    for answer in answers:
        assert isinstance(answer, ApiVersionsResponse)
        found.append(answer)
    return found


def features(answer: ApiVersionsResponse) -> tuple[set[Levels], set[Levels]]:
    """The supported and the finalised features, without those that only Kafka has."""
    supported = {
        (each.name, each.min_version, each.max_version) for each in answer.supported_features
    }
    finalized = {
        (each.name, each.min_version_level, each.max_version_level)
        for each in answer.finalized_features
    }
    return _shared(supported), _shared(finalized)


def are_announced_alike(both: SideBySide) -> bool:
    kafka, ours = announced(both, 4)
    return features(kafka) == features(ours)


@pytest.mark.parametrize("version", range(5))
def test_features_are_announced_as_by_kafka(both: SideBySide, version: int) -> None:
    kafka, ours = announced(both, version)
    assert features(ours) == features(kafka)
    assert ours.zk_migration_ready == kafka.zk_migration_ready
    assert (ours.finalized_features_epoch >= 0) == (kafka.finalized_features_epoch >= 0)


def test_each_change_of_a_level_is_announced_in_a_later_epoch(both: SideBySide) -> None:
    for level, kind in ((0, 2), (1, 1)):
        before = announced(both, 4)
        change = FeatureUpdateKey(
            feature="group.version", max_version_level=level, upgrade_type=kind
        )
        both.same(UpdateFeaturesRequest(feature_updates=[change]), 2)

        def are_later(before: list[ApiVersionsResponse] = before) -> bool:
            now = announced(both, 4)
            return all(
                each.finalized_features_epoch > earlier.finalized_features_epoch
                and each.finalized_features != earlier.finalized_features
                for each, earlier in zip(now, before, strict=True)
            )

        wait_until(are_later, 30, "Kafka's broker does not hear of the level")
        assert are_announced_alike(both)


FEATURES_AT_ONCE = [
    [("transaction.version", 1, 2), ("nonsense", 1, 1)],
    [("transaction.version", 3, 1)],
    [("transaction.version", 1, 1)],
    [("transaction.version", -1, 2)],
    [("transaction.version", 1, 2), ("group.version", 2, 1)],
    [("", 1, 1)],
    [],
    [("group.version", 0, 2), ("group.version", 1, 1)],
    # Of a feature that is named twice the last level counts.
    [("group.version", 2, 1), ("group.version", 1, 1)],
    [("metadata.version", 30, 1), ("transaction.version", 2, 1)],
]


def test_features_are_changed_all_or_none(both: SideBySide) -> None:
    for changes in FEATURES_AT_ONCE:
        updates = [
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in changes
        ]
        for version in (1, 2):
            request = UpdateFeaturesRequest(feature_updates=updates, validate_only=True)
            both.same(request, version)
    # What version 0 allows in its own way is not asked for.
    lowered = FeatureUpdateKey(feature="group.version", max_version_level=0, allow_downgrade=True)
    both.same(UpdateFeaturesRequest(feature_updates=[lowered]), 0)


def lists_are_alike(both: SideBySide) -> bool:
    kafka, ours = both.ask(ListConfigResourcesRequest(), 1)
    return plain(kafka) == plain(ours)


def test_resources_are_listed_as_by_kafka(both: SideBySide) -> None:
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    both.same(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    for kind, name, key, value in (
        (16, "m", "interval.ms", "1000"),
        (32, "g", "consumer.session.timeout.ms", "50000"),
    ):
        config = AlterableConfig(name=key, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
        both.same(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    # Kafka's broker hears of them a little later than its controller answers.
    wait_until(partial(lists_are_alike, both), 30, "Kafka's broker does not list what was made")
    both.same(ListConfigResourcesRequest(), 0)
    for kinds in ([], [32, 2], [16], [4], [3], [0]):
        both.same(ListConfigResourcesRequest(resource_types=kinds), 1)


@pytest.mark.requires("java", "mvn")
def test_kafkas_tools_for_features_and_client_metrics_do_their_job(tmp_path: Path) -> None:
    with BrokerProcess.on(tmp_path, {"remote.log.storage.system.enable": "false"}) as broker:
        server = ("--bootstrap-server", broker.bootstrap)
        features = run_tool("kafka-features", *server, "describe").stdout
        assert "Feature: metadata.version" in features
        upgraded = run_tool("kafka-features", *server, "upgrade", "--metadata", "4.3-IV0")
        assert "metadata.version was upgraded to" in upgraded.stdout
        refused = run_tool(
            "kafka-features", *server, "downgrade", "--metadata", "4.0-IV0", check=False
        )
        assert refused.returncode == 1
        tool = "kafka-client-metrics"
        altered = run_tool(
            tool, *server, "--alter", "--name", "m", "--metrics", "org.apache.kafka.",
            "--interval", "1000",
        )  # fmt: skip
        assert "Altered client metrics config for m." in altered.stdout
        assert run_tool(tool, *server, "--list").stdout.split() == ["m"]
        described = run_tool(tool, *server, "--describe", "--name", "m").stdout
        assert "interval.ms=1000" in described
        run_tool(tool, *server, "--delete", "--name", "m")
        assert run_tool(tool, *server, "--list").stdout.split() == []
