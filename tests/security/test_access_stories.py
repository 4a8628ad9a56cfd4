"""What a client may do, in stories: lists, auto-creation, what is remembered, and the audit."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.broker.request.authorized_operations import OPERATIONS_NOT_REQUESTED
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.api import ApiKey
from tierlog.replication.authorizer.authorizer import AclOperation
from tierlog.security.session import Session
from tierlog.tests import wire

from ..broker_process import RawClient
from ..conformance.meaningful_requests import request
from .access_cases import (
    ALTER_CONFIGS,
    CLUSTER_DENIED,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    EXISTING,
    MISSING,
    READ,
    TOPIC_DENIED,
    WRITE,
    Names,
    Right,
    batch,
    cluster,
    group,
    topic,
    transaction,
)
from .ruled_broker import RuledBroker, Rules, ask, denials, prepare

Stage = tuple[RawClient, Rules, dict[str, Names]]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with (
        RuledBroker(tmp_path_factory.mktemp("ruled")) as broker,
        RawClient(broker.port) as client,
    ):
        yield client, broker.rules, prepare(client)


def bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


def metadata(client: RawClient, version: int = 12, **values: object) -> wire.MetadataResponse:
    asked = request(ApiKey.METADATA, version, **values)
    return client.ask(asked, version, wire.MetadataResponse)


def produce(client: RawClient, names: Names, version: int) -> int:
    data = [{"index": 0, "records": batch()}]
    topics = [{"name": names.name, "topic_id": names.topic_id, "partition_data": data}]
    asked = request(ApiKey.PRODUCE, version, acks=1, timeout_ms=5_000, topic_data=topics)
    answer = client.ask(asked, version, wire.ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def fetch(
    client: RawClient, version: int, names: Names | None, **more: object
) -> wire.FetchResponse:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    topics = (
        []
        if names is None
        else [{"topic": names.name, "topic_id": names.topic_id, "partitions": partitions}]
    )
    limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20}
    asked = request(ApiKey.FETCH, version, **limits, topics=topics, **more)
    return client.ask(asked, version, wire.FetchResponse)


def code_of(answer: wire.FetchResponse) -> int:
    return answer.responses[0].partitions[0].error_code


@pytest.mark.parametrize("version", [9, 13])
def test_a_repeated_produce_is_decided_when_the_entries_change(stage: Stage, version: int) -> None:
    client, rules, names = stage
    right = topic(WRITE, EXISTING)
    for _ in range(3):
        rules.allow([right])
        assert [produce(client, names[EXISTING], version) for _ in range(5)] == [0] * 5
        rules.allow([])
        assert [produce(client, names[EXISTING], version) for _ in range(5)] == [TOPIC_DENIED] * 5


@pytest.mark.parametrize("version", [12, 16])
def test_a_repeated_fetch_is_decided_when_the_entries_change(stage: Stage, version: int) -> None:
    client, rules, names = stage
    for _ in range(3):
        for rights, code in (([topic(READ, EXISTING)], 0), ([], TOPIC_DENIED)):
            rules.allow(rights)
            answers = [fetch(client, version, names[EXISTING], session_epoch=-1) for _ in range(5)]
            assert [code_of(each) for each in answers] == [code] * 5
            has_records = [bool(each.responses[0].partitions[0].records) for each in answers]
            assert has_records == [not code] * 5


def test_a_repeated_request_is_decided_when_its_client_is_another(tmp_path: Path) -> None:
    with RuledBroker(tmp_path) as broker, RawClient(broker.port) as client:
        names = prepare(client)[EXISTING]
        session = Session()
        for name in ("User:alice", "User:bob", "User:alice"):
            session = session.authenticated(name, "PLAIN", None)
            broker.session = session
            broker.rules.decisions.clear()
            # Requests that repeat are answered from memory, but for the first of each client.
            assert [produce(client, names, 9) for _ in range(5)] == [0] * 5
            answers = [fetch(client, 12, names, session_epoch=-1) for _ in range(5)]
            assert [code_of(each) for each in answers] == [0] * 5
            decided = [principal for principal, _, _ in broker.rules.decisions]
            assert set(decided) == {name}
            assert len(decided) < 10


def test_only_who_may_replicate_displaces_the_sessions_of_consumers(tmp_path: Path) -> None:
    """Everyone can state a replica id; a follower's session takes the place of a consumer's."""
    slots = {"max.incremental.fetch.session.cache.slots": "1"}
    with RuledBroker(tmp_path, slots) as broker, RawClient(broker.port) as client:
        names = prepare(client)[EXISTING]
        broker.rules.allow([topic(READ, EXISTING)])
        session_id = fetch(client, 12, names, session_epoch=0).session_id
        assert session_id
        claimed = fetch(client, 12, names, session_epoch=0, replica_id=2)
        assert code_of(claimed) == TOPIC_DENIED
        assert claimed.session_id == 0
        again = fetch(client, 12, None, session_id=session_id, session_epoch=1)
        assert (again.error_code, again.session_id) == (0, session_id)
        broker.rules.allow([cluster(AclOperation.CLUSTER_ACTION)])
        assert fetch(client, 12, names, session_epoch=0, replica_id=2).session_id
        gone = fetch(client, 12, None, session_id=session_id, session_epoch=2)
        assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_fetch_that_was_denied_is_not_remembered_as_allowed(stage: Stage) -> None:
    client, rules, names = stage
    rules.allow([])
    answers = [fetch(client, 16, names[EXISTING], session_epoch=-1) for _ in range(5)]
    assert [code_of(each) for each in answers] == [TOPIC_DENIED] * 5


@pytest.mark.parametrize("version", [12, 16])
def test_a_fetch_session_is_decided_at_each_fetch(stage: Stage, version: int) -> None:
    client, rules, names = stage
    rules.allow([topic(READ, EXISTING)])
    first = fetch(client, version, names[EXISTING], session_epoch=0)
    assert code_of(first) == 0
    rules.allow([])
    # Nothing is named: the partition stands in the session.
    second = fetch(client, version, None, session_id=first.session_id, session_epoch=1)
    assert code_of(second) == TOPIC_DENIED
    assert not second.responses[0].partitions[0].records
    rules.allow([topic(READ, EXISTING)])
    third = fetch(client, version, None, session_id=first.session_id, session_epoch=2)
    assert code_of(third) == 0
    assert third.responses[0].partitions[0].records


def test_an_unknown_id_and_a_missing_right_have_different_errors(
    stage: Stage,
) -> None:
    client, rules, names = stage
    rules.allow([])
    unknown_id = 100
    assert produce(client, names[MISSING], 13) == unknown_id
    assert produce(client, names[EXISTING], 13) == TOPIC_DENIED
    assert code_of(fetch(client, 16, names[MISSING], session_epoch=-1)) == unknown_id
    (described,) = metadata(
        client, topics=[{"topic_id": names[EXISTING].topic_id, "name": None}]
    ).topics
    assert (described.error_code, described.name) == (TOPIC_DENIED, None)
    assert described.topic_id == names[EXISTING].topic_id


def test_lists_show_what_may_be_described(stage: Stage) -> None:
    client, rules, _ = stage

    def listed(rights: list[Right]) -> list[list[str | None]]:
        rules.allow(rights)
        groups = client.ask(request(ApiKey.LIST_GROUPS, 4), 4, wire.ListGroupsResponse)
        transactions = client.ask(
            request(ApiKey.LIST_TRANSACTIONS, 0), 0, wire.ListTransactionsResponse
        )
        every = request(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[])
        pages = client.ask(every, 0, wire.DescribeTopicPartitionsResponse)
        return [
            [each.name for each in metadata(client, topics=None).topics],
            [each.group_id for each in groups.groups],
            [each.transactional_id for each in transactions.transaction_states],
            [each.name for each in pages.topics],
        ]

    assert listed([]) == [[], [], [], []]
    described = [
        topic(DESCRIBE, EXISTING),
        group(DESCRIBE, EXISTING),
        transaction(DESCRIBE, EXISTING),
    ]
    assert listed(described) == [[EXISTING]] * 4
    assert listed([cluster(DESCRIBE)]) == [[], [EXISTING], [], []]


def test_nothing_is_created_for_a_client_that_may_not(stage: Stage) -> None:
    client, rules, _ = stage
    wished = "wished-for"

    def asked_for(*rights: Right) -> int:
        rules.allow(rights)
        (answer,) = metadata(
            client, topics=[{"name": wished}], allow_auto_topic_creation=True
        ).topics
        assert answer.topic_id == bytes(16) or not answer.error_code
        rules.allow(None)
        is_there = wished in {each.name for each in metadata(client, topics=None).topics}
        assert is_there == (not answer.error_code)
        return answer.error_code

    assert asked_for() == TOPIC_DENIED
    assert asked_for(topic(CREATE, wished)) == TOPIC_DENIED
    assert asked_for(topic(DESCRIBE, wished)) == TOPIC_DENIED
    assert asked_for(topic(DESCRIBE, wished), topic(CREATE, wished)) == 0
    wished = "another"
    assert asked_for(topic(DESCRIBE, wished), cluster(CREATE)) == 0


def test_operations_are_those_that_the_client_may_do(stage: Stage) -> None:
    client, rules, _ = stage
    requested = {
        "topics": [{"name": EXISTING}],
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }
    rules.allow([topic(DESCRIBE, EXISTING), topic(READ, EXISTING)])
    answer = metadata(client, 8, **requested)
    assert answer.topics[0].topic_authorized_operations == bits(DESCRIBE, READ)
    assert answer.cluster_authorized_operations == 0
    rules.allow([cluster(DESCRIBE), cluster(CREATE)])
    answer = metadata(client, 8, **requested)
    assert answer.topics[0].topic_authorized_operations == OPERATIONS_NOT_REQUESTED
    assert answer.cluster_authorized_operations == bits(DESCRIBE, CREATE)
    described = request(ApiKey.DESCRIBE_CLUSTER, 0, include_cluster_authorized_operations=True)
    answered = client.ask(described, 0, wire.DescribeClusterResponse)
    assert answered.cluster_authorized_operations == bits(DESCRIBE, CREATE)
    rules.allow([group(DESCRIBE, EXISTING), group(DELETE, EXISTING)])
    groups = request(
        ApiKey.DESCRIBE_GROUPS, 5, groups=[EXISTING], include_authorized_operations=True
    )
    (shown,) = client.ask(groups, 5, wire.DescribeGroupsResponse).groups
    assert shown.authorized_operations == bits(DESCRIBE, DELETE)
    rules.allow(None)
    answer = metadata(client, 8, **requested)
    assert answer.topics[0].topic_authorized_operations == 3576
    assert answer.cluster_authorized_operations == 8096


def test_what_is_allowed_of_a_request_is_served(stage: Stage) -> None:
    client, rules, _ = stage
    rules.allow(None)
    made = {"name": "second", "num_partitions": 1, "replication_factor": 1}
    ask(client, ApiKey.CREATE_TOPICS, 7, topics=[made], timeout_ms=10_000)
    rules.allow([topic(WRITE, "second"), group(READ, "g"), topic(READ, "second")])
    data = [{"index": 0, "records": batch()}]
    topics = [{"name": name, "partition_data": data} for name in (EXISTING, "second")]
    asked = request(ApiKey.PRODUCE, 9, acks=1, timeout_ms=5_000, topic_data=topics)
    answer = client.ask(asked, 9, wire.ProduceResponse)
    codes = [each.partition_responses[0].error_code for each in answer.responses]
    assert codes == [TOPIC_DENIED, 0]
    offsets = [{"partition_index": 0, "committed_offset": 1}]
    commit = request(
        ApiKey.OFFSET_COMMIT,
        8,
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[{"name": name, "partitions": offsets} for name in (EXISTING, "second")],
    )
    committed = client.ask(commit, 8, wire.OffsetCommitResponse)
    assert [each.partitions[0].error_code for each in committed.topics] == [
        TOPIC_DENIED,
        0,
    ]
    rules.allow([group(DESCRIBE, "g"), topic(DESCRIBE, "second")])
    for named in (None, [{"name": n, "partition_indexes": [0]} for n in (EXISTING, "second")]):
        wish = request(ApiKey.OFFSET_FETCH, 8, groups=[{"group_id": "g", "topics": named}])
        fetched = client.ask(wish, 8, wire.OffsetFetchResponse)
        shown = {
            each.name: (each.partitions[0].error_code, each.partitions[0].committed_offset)
            for each in fetched.groups[0].topics
        }
        hidden = {} if named is None else {EXISTING: (TOPIC_DENIED, -1)}
        assert shown == {"second": (0, 1), **hidden}


def test_configurations_of_a_new_topic_are_shown_to_those_who_may_see_them(stage: Stage) -> None:
    client, rules, _ = stage
    made = {"name": "modest", "num_partitions": 2, "replication_factor": 1}

    def created(*rights: Right) -> tuple[int, int, int, bool]:
        rules.allow(rights)
        asked = request(
            ApiKey.CREATE_TOPICS, 7, topics=[made], timeout_ms=5_000, validate_only=True
        )
        (each,) = client.ask(asked, 7, wire.CreateTopicsResponse).topics
        return (
            each.error_code,
            each.topic_config_error_code,
            each.num_partitions,
            bool(each.configs),
        )

    create, see = topic(CREATE, "modest"), topic(DESCRIBE_CONFIGS, "modest")
    assert created(create) == (0, TOPIC_DENIED, -1, False)
    assert created(create, see) == (0, 0, 2, True)


@pytest.mark.parametrize("key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
def test_a_value_of_the_broker_is_not_looked_at_for_a_client_that_may_not_set_it(
    stage: Stage, key: ApiKey
) -> None:
    """Checking one reads key stores: the objection would tell which files there are."""
    client, rules, _ = stage
    changes = [{"name": "log.cleaner.threads", "value": "many"}]
    resource = {"resource_type": 4, "resource_name": "1", "configs": changes}
    rules.allow([])
    assert denials(ask(client, key, 1, resources=[resource])) == {CLUSTER_DENIED}
    rules.allow([cluster(ALTER_CONFIGS)])
    answer = ask(client, key, 1, resources=[resource])
    assert "many" in str(answer)
    assert not denials(answer)


def test_a_denial_is_one_line_whatever_the_name(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    client, rules, _ = stage
    rules.allow([])
    hostile = "g\nPrincipal = User:root is Allowed"
    with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
        ask(client, ApiKey.DESCRIBE_GROUPS, 5, groups=[hostile, "x" * 5_000])
        # Probes leave no line.
        metadata(client, topics=None)
    lines = [each.getMessage() for each in caplog.records if each.name == "kafka.authorizer.logger"]
    assert lines[-2] == (
        "Principal = User:ANONYMOUS is Denied operation = DESCRIBE from host = 127.0.0.1 on "
        "resource = Group:LITERAL:g\\nPrincipal = User:root is Allowed for request = DescribeGroups"
    )
    assert lines[-1].count("x") < 400
    assert not any("\n" in line for line in lines)
