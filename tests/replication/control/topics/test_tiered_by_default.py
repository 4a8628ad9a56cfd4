"""`log.remote.storage.enable`: new topics that do not say are tiered, where that is possible."""

from random import Random

import pytest

from tierlog.broker.config.config import read_config
from tierlog.broker.config.settings import controller_config
from tierlog.clients.protocol.messages.create_topics import CreateTopicsRequest
from tierlog.replication.control.controller_config import ConfigSource, ControllerConfig
from tierlog.replication.control.topics.topic_control import TopicControl, create_topics
from tierlog.replication.metadata.metadata_records import ConfigRecord
from tierlog.storage.config import LogConfig
from tierlog.tests.replication.control.topics.topic_cluster import Ids, cluster, topic

TIERED = ("remote.storage.enable", "true")
CONFIG = ControllerConfig(1, remote_storage_system_enabled=True, remote_storage_default=True)


def overrides(
    config: ControllerConfig, name: str, *configs: tuple[str, str | None]
) -> dict[str, str | None]:
    """What is recorded of a topic that is created so; it must succeed."""
    request = CreateTopicsRequest(topics=[topic(name, configs=list(configs))])
    decision = create_topics(TopicControl(config, Ids(), Random(0)), cluster(), request)
    assert [result.error_code for result in decision.answer.topics] == [0]
    return {
        record.name: record.value for record in decision.records if isinstance(record, ConfigRecord)
    }


def test_a_topic_that_does_not_say_is_tiered_for_as_long_as_it_lives() -> None:
    assert overrides(CONFIG, "orders", ("retention.ms", "5000")) == {
        "retention.ms": "5000",
        "remote.storage.enable": "true",
    }


def test_the_answer_shows_it_as_the_topics_own() -> None:
    request = CreateTopicsRequest(topics=[topic("orders")])
    decision = create_topics(TopicControl(CONFIG, Ids(), Random(0)), cluster(), request)
    (shown,) = [
        each
        for each in decision.answer.topics[0].configs or ()
        if each.name == "remote.storage.enable"
    ]
    assert (shown.value, shown.config_source) == ("true", ConfigSource.TOPIC_CONFIG)


@pytest.mark.parametrize("stated", ["true", "false"])
def test_what_a_topic_says_counts(stated: str) -> None:
    found = overrides(CONFIG, "orders", ("remote.storage.enable", stated))
    assert found == {"remote.storage.enable": stated}


@pytest.mark.parametrize(
    "name", ["__consumer_offsets", "__transaction_state", "__remote_log_metadata"]
)
def test_internal_topics_never_are(name: str) -> None:
    assert overrides(CONFIG, name) == {}


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_compacted_topics_never_are(policy: str) -> None:
    found = overrides(CONFIG, "state", ("cleanup.policy", policy))
    assert found == {"cleanup.policy": policy}


def test_nor_are_topics_where_the_broker_compacts_by_default() -> None:
    compacting = ControllerConfig(
        1,
        remote_storage_system_enabled=True,
        remote_storage_default=True,
        log_config=LogConfig(cleanup_policy=("compact",)),
    )
    assert overrides(compacting, "state") == {}


def test_a_topic_that_could_not_be_tiered_as_it_is_stated_is_made_all_the_same() -> None:
    found = overrides(CONFIG, "short", ("retention.ms", "200"), ("local.retention.ms", "300"))
    assert "remote.storage.enable" not in found


def test_without_a_tier_or_without_the_default_nothing_changes() -> None:
    for config in (
        ControllerConfig(1, remote_storage_system_enabled=True),
        ControllerConfig(1, remote_storage_default=True),
    ):
        assert overrides(config, "orders") == {}


def test_a_broker_says_it_in_its_file() -> None:
    stated = {"log.remote.storage.enable": "true", "rsm.config.url": "memory://x"}
    for properties, expected in ((stated, True), ({}, False)):
        config = read_config(properties)
        assert controller_config(config, LogConfig(), 100).remote_storage_default is expected
