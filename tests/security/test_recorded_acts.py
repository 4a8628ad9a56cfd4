"""Each administrative act leaves one line of audit, with its outcome and without secrets."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.cli.command_line import run
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.api import APIS, ApiKey, request_class
from tierlog.clients.protocol.schema import Message
from tierlog.replication.authorizer.standard_authorizer import StandardAuthorizer
from tierlog.replication.metadata.cluster_image import ConfigResourceType
from tierlog.security.acts import ACTS, ITEMS_MAX, LINE_MAX, act_text, outcome_text
from tierlog.security.api_checks import CHECKS
from tierlog.tests import wire

from ..broker.guarded_broker import GuardedBroker
from ..broker_process import RawClient
from ..conformance.meaningful_requests import request

CHANGES = ("ALTER", "CREATE", "DELETE", "ELECT", "REMOVE", "ADD_RAFT", "UNREGISTER", "UPDATE_F")
ALSO = {"INCREMENTAL_ALTER_CONFIGS", "OFFSET_DELETE"}
OF_NODES = {"ALTER_PARTITION"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    with GuardedBroker(tmp_path_factory.mktemp("acts")) as running:
        yield running


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "tierlog.audit"]


def sent(broker: GuardedBroker, key: ApiKey, version: int, /, **values: object) -> Message:
    with RawClient(broker.port) as client:
        return client.receive(client.send(request(key, version, **values), version))


def topic(name: str) -> dict[str, object]:
    return {"name": name, "num_partitions": 2, "replication_factor": 1}


def test_every_api_that_changes_the_cluster_is_an_act() -> None:
    names = {each.name for each in map(ApiKey, CHECKS)}
    changing = {each for each in names if each.startswith(CHANGES)} | ALSO
    assert {ApiKey(each).name for each in ACTS} == changing - OF_NODES


@pytest.mark.parametrize("key", sorted(ACTS), ids=lambda key: APIS[ApiKey(key)].name)
def test_an_empty_request_can_be_shown(key: int) -> None:
    assert isinstance(act_text(key, request_class(ApiKey(key))()), str)


def test_what_was_done_stands_on_one_line(
    broker: GuardedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    sent(broker, ApiKey.CREATE_TOPICS, 7, topics=[topic("orders")])
    sent(broker, ApiKey.CREATE_TOPICS, 7, topics=[topic("orders"), topic("more")])
    sent(broker, ApiKey.CREATE_TOPICS, 7, topics=[topic("idle")], validate_only=True)
    sent(broker, ApiKey.METADATA, 12)
    names = [{"name": "orders", "count": 1}]
    sent(broker, ApiKey.CREATE_PARTITIONS, 3, topics=names, timeout_ms=30_000)
    assert lines(caplog) == [
        "User:ANONYMOUS from 127.0.0.1: CreateTopics topics=[name=orders num_partitions=2"
        " replication_factor=1]: done",
        "User:ANONYMOUS from 127.0.0.1: CreateTopics topics=[name=orders num_partitions=2"
        " replication_factor=1, name=more num_partitions=2 replication_factor=1]: done in part,"
        " TOPIC_ALREADY_EXISTS",
        "User:ANONYMOUS from 127.0.0.1: CreatePartitions topics=[name=orders count=1]: failed,"
        " INVALID_PARTITIONS",
    ]


def test_configurations_and_users_are_shown_without_their_values(
    broker: GuardedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    change = {"name": "my.password", "config_operation": 0, "value": "hidden"}
    resource = {"resource_type": ConfigResourceType.BROKER, "resource_name": "0"}
    sent(broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[{**resource, "configs": [change]}])
    user = wire.ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"hidden", salted_password=b"hidden"
    )
    with RawClient(broker.port) as client:
        client.receive(client.send(wire.AlterUserScramCredentialsRequest(upsertions=[user]), 0))
    assert lines(caplog) == [
        "User:ANONYMOUS from 127.0.0.1: IncrementalAlterConfigs resources=[resource_type=BROKER"
        " resource_name=0 configs=[name=my.password config_operation=0]]: done",
        "User:ANONYMOUS from 127.0.0.1: AlterUserScramCredentials"
        " upsertions=[name=alice mechanism=SCRAM-SHA-256 iterations=4096]: done",
    ]
    assert "hidden" not in caplog.text


def test_the_command_that_sets_a_password_does_not_print_it(
    broker: GuardedBroker, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    words = ("config", "set", "broker", "0", "my.password=sesame", "log.cleaner.threads=1")
    assert run([*words, "--json", "-b", broker.bootstrap], 0) == 0
    printed = capsys.readouterr().out
    assert '"my.password":"(hidden)"' in printed.replace(" ", "")
    assert '"log.cleaner.threads":"1"' in printed.replace(" ", "")
    assert "sesame" not in printed + caplog.text


def test_a_denied_act_has_the_line_of_its_denial_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with GuardedBroker(tmp_path, make=lambda: StandardAuthorizer(frozenset())) as broker:
        sent(broker, ApiKey.CREATE_TOPICS, 7, topics=[topic("mine")])
        sent(broker, ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[])
    assert lines(caplog) == []
    denied = [each for each in caplog.messages if "is Denied" in each]
    assert {each.rpartition(" ")[2] for each in denied} == {"CreateTopics", "AlterClientQuotas"}


def test_names_cannot_forge_a_line_nor_make_a_long_one() -> None:
    topics = [topic("a\nUser:root from 10.0.0.1: done"), *(topic("x" * 249) for _ in range(500))]
    text = act_text(ApiKey.CREATE_TOPICS, request(ApiKey.CREATE_TOPICS, 7, topics=topics))
    assert text.startswith(r"topics=[name=a\nUser:root")
    assert "\n" not in text
    assert len(text) <= LINE_MAX + 1
    short = act_text(
        ApiKey.CREATE_TOPICS, request(ApiKey.CREATE_TOPICS, 7, topics=topics[1:2] * 20)
    )
    assert short.count("name=") <= ITEMS_MAX


def test_outcomes() -> None:
    assert outcome_text({}) == "done"
    assert outcome_text({0: 3}) == "done"
    assert outcome_text({0: 1, 41: 2}) == "done in part, NOT_CONTROLLER"
    assert outcome_text({ErrorCode.INVALID_REQUEST: 1, 9999: 1}) == (
        "failed, INVALID_REQUEST, error 9999"
    )
