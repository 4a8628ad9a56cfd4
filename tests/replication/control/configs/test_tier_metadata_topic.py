"""The topic on which the tier stands cannot be taken from under it."""

from random import Random

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.control.configs.alter_configs import (
    ConfigAlteration,
    ConfigChange,
    ConfigOperation,
    alter_configs,
)
from tierlog.replication.control.configs.tier_metadata_topic import mend
from tierlog.replication.control.controller_config import ControllerConfig
from tierlog.replication.control.topics.topic_control import (
    TopicControl,
    create_partitions,
    create_topics,
    delete_topics,
)
from tierlog.replication.metadata.cluster_image import (
    ClusterImage,
    ConfigResource,
    ConfigResourceType,
)
from tierlog.tests import wire
from tierlog.tests.replication.control.topics.topic_cluster import cluster
from tierlog.tests.replication.metadata.folded_image import fold
from tierlog.tests.replication.node import creation

IMAGE = cluster()
NAME = "__remote_log_metadata"
TIERED = ControllerConfig(remote_storage_system_enabled=True, tier_metadata_retention_ms=-1)
UNTIERED = ControllerConfig()
FOR_EVER = {"retention.ms": "-1"}


def made(config: ControllerConfig, request: wire.CreateTopicsRequest) -> tuple[int, ClusterImage]:
    control = TopicControl(config, lambda: Uuid(bytes([7]) * 16), Random(0))
    decision = create_topics(control, IMAGE, request)
    return decision.answer.topics[0].error_code, fold(IMAGE, *decision.records)


def topic_image(configs: dict[str, str] | None = None) -> ClusterImage:
    code, image = made(UNTIERED, creation(NAME, partitions=3, configs=configs))
    assert code == 0
    return image


@pytest.mark.parametrize(("config", "expected"), [(TIERED, 44), (UNTIERED, 0)])
def test_it_is_deleted_only_without_a_tier(config: ControllerConfig, expected: int) -> None:
    request = wire.DeleteTopicsRequest(topics=[wire.DeleteTopicState(name=NAME)])
    decision = delete_topics(config, topic_image(), request)
    assert decision.answer.responses[0].error_code == expected
    assert bool(decision.records) is not bool(expected)


@pytest.mark.parametrize(("config", "expected"), [(TIERED, 44), (UNTIERED, 0)])
def test_it_gets_more_partitions_only_without_a_tier(
    config: ControllerConfig, expected: int
) -> None:
    """With another number of them every event would be looked for in another partition."""
    asked = wire.CreatePartitionsTopic(name=NAME, count=5, assignments=None)
    decision = create_partitions(
        config, topic_image(), wire.CreatePartitionsRequest(topics=[asked]), Random(0)
    )
    assert decision.answer.results[0].error_code == expected


LOSING = [
    {"retention.ms": "604800000"},
    {"retention.ms": "-1", "retention.bytes": "1000"},
    {"retention.ms": "-1", "cleanup.policy": "compact"},
    {"retention.ms": "-1", "cleanup.policy": "compact,delete"},
    {"retention.ms": "-1", "remote.storage.enable": "true"},
]


@pytest.mark.parametrize("configs", [{}, *LOSING])
def test_it_is_not_made_to_lose_its_records(configs: dict[str, str]) -> None:
    assert made(TIERED, creation(NAME, configs=configs))[0] == ErrorCode.INVALID_CONFIG
    assert made(TIERED, creation(NAME, configs=FOR_EVER))[0] == 0


@pytest.mark.parametrize("configs", LOSING)
def test_it_is_not_changed_to_lose_its_records(configs: dict[str, str]) -> None:
    changes = [ConfigChange(name, ConfigOperation.SET, value) for name, value in configs.items()]
    resource = ConfigResource(ConfigResourceType.TOPIC, NAME)
    image = topic_image(FOR_EVER)
    for replaces in (True, False):
        alteration = ConfigAlteration(resource, changes, replaces=replaces)
        (refusal,) = alter_configs(TIERED, image, [alteration], False).answer
        assert refusal is not None
        assert refusal.code is ErrorCode.INVALID_CONFIG
        assert (
            "only this topic records what the remote tier of this cluster holds" in refusal.message
        )
    harmless = ConfigAlteration(resource, [ConfigChange("segment.ms", 0, "86400000")])
    assert alter_configs(TIERED, image, [harmless], False).answer == [None]


@pytest.mark.parametrize("configs", [{}, *LOSING[:-1]])
def test_one_that_somebody_made_otherwise_is_mended(configs: dict[str, str]) -> None:
    image = topic_image(configs)
    decision = mend(TIERED, image)
    assert decision.answer
    mended = fold(image, *decision.records)
    assert not mend(TIERED, mended).records
    assert not mend(UNTIERED, image).records


def test_a_retention_that_the_operator_has_stated_is_enough() -> None:
    config = ControllerConfig(remote_storage_system_enabled=True, tier_metadata_retention_ms=5_000)
    assert not mend(config, topic_image({"retention.ms": "6000"})).records
    assert mend(config, topic_image({"retention.ms": "4000"})).answer == {"retention.ms": "5000"}


def test_without_the_topic_nothing_is_mended() -> None:
    assert not mend(TIERED, IMAGE).records
