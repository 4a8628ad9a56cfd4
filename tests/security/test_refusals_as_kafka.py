"""Refusals word by word as Apache Kafka 4.3.1's, where random requests have shown a difference.

`conformance/decisions` finds such cases; each that was mended is kept here.
"""

from collections.abc import Iterator, Sequence

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.api import ApiKey
from tierlog.replication.authorizer.authorizer import CLUSTER_NAME, Resource, ResourceType

from ..broker_process import RawClient
from ..conformance.side_by_side import Plain, at
from .access_cases import (
    CLUSTER_ACTION,
    DESCRIBE,
    EXISTING,
    MISSING,
    READ,
    WRITE,
    Right,
    batch,
    transaction,
)
from .ruled_broker import RuledBroker, ask, prepare

WITH_CONTROLLER = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
}
TOPIC, BROKER, LOGGER = 2, 4, 8
SENTENCE = "Cluster authorization failed."


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RuledBroker]:
    with RuledBroker(tmp_path_factory.mktemp("ruled"), WITH_CONTROLLER) as started:
        with RawClient(started.port) as client:
            prepare(client)
        yield started


@pytest.fixture(scope="module")
def client(broker: RuledBroker) -> Iterator[RawClient]:
    with RawClient(broker.port) as connected:
        yield connected


@pytest.fixture(scope="module")
def at_controller(broker: RuledBroker) -> Iterator[RawClient]:
    assert broker.broker is not None
    (endpoint,) = broker.broker.listeners.controllers
    with RawClient(endpoint.port) as connected:
        yield connected


@pytest.fixture(autouse=True)
def nothing_is_allowed(broker: RuledBroker) -> None:
    broker.rules.allow(())


@pytest.mark.parametrize(
    ("key_type", "code", "sentence"),
    [(0, 30, "Group authorization failed."), (1, 53, "Transactional Id authorization failed.")],
)
def test_a_coordinator_of_one_is_refused_with_a_sentence_and_of_several_without(
    client: RawClient, key_type: int, code: int, sentence: str
) -> None:
    one = ask(client, ApiKey.FIND_COORDINATOR, 3, key="g", key_type=key_type)
    assert (at(one, "error_code"), at(one, "error_message")) == (code, sentence)
    several = ask(client, ApiKey.FIND_COORDINATOR, 4, coordinator_keys=["g"], key_type=key_type)
    each = at(several, "coordinators", 0)
    assert (at(each, "error_code"), at(each, "error_message")) == (code, "")


def test_coordinators_of_share_groups_are_for_brokers(
    broker: RuledBroker, client: RawClient
) -> None:
    def code(version: int) -> Plain:
        answer = ask(client, ApiKey.FIND_COORDINATOR, version, coordinator_keys=["g"], key_type=2)
        return at(answer, "coordinators", 0, "error_code")

    assert [code(5), code(6)] == [42, 31]
    cluster = Resource(ResourceType.CLUSTER, CLUSTER_NAME)
    broker.rules.allow([Right(CLUSTER_ACTION, cluster)])
    assert code(6) == 42


def test_producers_are_refused_with_a_sentence(client: RawClient) -> None:
    topics = [{"name": EXISTING, "partition_indexes": [0]}]
    answer = ask(client, ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics)
    partition = at(answer, "topics", 0, "partitions", 0)
    assert at(partition, "error_message") == "Topic authorization failed."


def test_quotas_and_users_are_refused_without_a_sentence(client: RawClient) -> None:
    for key, version in (
        (ApiKey.DESCRIBE_CLIENT_QUOTAS, 1),
        (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0),
    ):
        answer = ask(client, key, version)
        assert (at(answer, "error_code"), at(answer, "error_message")) == (31, None)


def test_a_controller_tells_nobody_of_users(broker: RuledBroker, at_controller: RawClient) -> None:
    for rights in ((), None):
        broker.rules.allow(rights)
        answer = ask(
            at_controller, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=[{"name": "alice"}]
        )
        assert at(answer, "error_code") == -1
        each = at(answer, "results", 0)
        assert (at(each, "user"), at(each, "error_code")) == ("", -1)


def test_a_logger_is_refused_by_a_broker_without_a_sentence_and_by_a_controller_with_one(
    client: RawClient, at_controller: RawClient
) -> None:
    changes = [{"name": "root", "config_operation": 0, "value": "INFO"}]
    resource = {"resource_type": LOGGER, "resource_name": "1", "configs": changes}
    responses = [
        at(ask(each, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource]), "responses", 0)
        for each in (client, at_controller)
    ]
    assert [at(each, "error_code") for each in responses] == [31, 31]
    assert [at(each, "error_message") for each in responses] == [None, SENTENCE]


def altered(client: RawClient, name: str) -> Plain:
    changes = [{"name": "log.cleaner.threads", "value": "1"}]
    resource = {"resource_type": BROKER, "resource_name": name, "configs": changes}
    answer = ask(client, ApiKey.ALTER_CONFIGS, 1, resources=[resource], validate_only=True)
    return at(answer, "responses", 0, "error_code")


def test_a_broker_says_first_that_another_broker_is_meant(
    broker: RuledBroker, client: RawClient
) -> None:
    assert [altered(client, name) for name in ("77", "1", "")] == [42, 31, 31]
    broker.rules.allow(None)
    assert [altered(client, name) for name in ("77", "1")] == [42, 0]


def test_a_controller_alters_no_node_that_is_not_there(
    broker: RuledBroker, at_controller: RawClient
) -> None:
    assert altered(at_controller, "77") == 31
    broker.rules.allow(None)
    names = ("77", "x", "1" * 12, "1")
    assert [altered(at_controller, name) for name in names] == [102, 42, 42, 0]


def test_an_id_that_no_topic_has_shows_no_operations(
    broker: RuledBroker, client: RawClient
) -> None:
    broker.rules.allow(None)
    topics = [{"name": None, "topic_id": Uuid(b"\x07" * 16)}]
    answer = ask(
        client, ApiKey.METADATA, 12, topics=topics, include_topic_authorized_operations=True
    )
    assert at(answer, "topics", 0, "topic_authorized_operations") == -(2**31)


def test_a_partition_that_is_not_there_is_reported_before_the_transaction_is_looked_at(
    broker: RuledBroker, client: RawClient
) -> None:
    names = (EXISTING, MISSING)
    rights = [Right(WRITE, Resource(ResourceType.TOPIC, name)) for name in names]
    broker.rules.allow([*rights, transaction(WRITE, EXISTING)])
    data = [{"index": 0, "records": batch(transactional=True)}]
    answer = ask(
        client,
        ApiKey.PRODUCE,
        8,
        acks=1,
        timeout_ms=5_000,
        transactional_id=EXISTING,
        topic_data=[{"name": name, "partition_data": data} for name in names],
    )
    codes = [at(answer, "responses", n, "partition_responses", 0, "error_code") for n in (0, 1)]
    assert codes == [49, 3]


@pytest.mark.parametrize(("rights", "code"), [((), 53), ([transaction(WRITE, "mine")], 100)])
def test_a_transaction_is_refused_before_an_id_that_no_topic_has(
    broker: RuledBroker, client: RawClient, rights: Sequence[Right], code: int
) -> None:
    broker.rules.allow(rights)
    data = [{"index": 0, "records": batch(transactional=True)}]
    answer = ask(
        client,
        ApiKey.PRODUCE,
        13,
        acks=1,
        timeout_ms=5_000,
        transactional_id="mine",
        topic_data=[{"topic_id": Uuid(b"\x07" * 16), "partition_data": data}],
    )
    assert at(answer, "responses", 0, "partition_responses", 0, "error_code") == code


def test_a_topic_without_a_name_is_decided_on_by_its_name(
    broker: RuledBroker, client: RawClient
) -> None:
    """As any other that is not there; only an id that is not there has no name."""

    def codes() -> list[Plain]:
        records = [{"index": 0, "records": batch()}]
        produced = ask(
            client, ApiKey.PRODUCE, 7, acks=1, topic_data=[{"name": "", "partition_data": records}]
        )
        fetched = ask(
            client, ApiKey.FETCH, 4, topics=[{"topic": "", "partitions": [{"partition": 0}]}]
        )
        offsets = ask(
            client,
            ApiKey.OFFSET_FETCH,
            7,
            group_id=EXISTING,
            topics=[{"name": "", "partition_indexes": [0]}],
        )
        return [
            at(produced, "responses", 0, "partition_responses", 0, "error_code"),
            at(fetched, "responses", 0, "partitions", 0, "error_code"),
            at(offsets, "topics", 0, "partitions", 0, "error_code"),
        ]

    group = Right(DESCRIBE, Resource(ResourceType.GROUP, EXISTING))
    broker.rules.allow([group])
    assert codes() == [29, 29, 29]
    named = Resource(ResourceType.TOPIC, "")
    broker.rules.allow([group, *(Right(each, named) for each in (WRITE, READ, DESCRIBE))])
    assert codes() == [3, 3, 0]
