"""The group APIs over a connection, in the versions where their answers have another shape."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.tests import wire

from ...broker_process import BrokerThread, RawClient

TOPIC = "topic"
UNKNOWN_ID = Uuid(b"\x01" * 16)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("data")) as thread:
        with RawClient(thread.port) as client:
            topic = wire.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
            client.ask(wire.CreateTopicsRequest(topics=[topic]), 7, wire.CreateTopicsResponse)
            client.ask(wire.FindCoordinatorRequest(key="group"), 2, wire.FindCoordinatorResponse)
        yield thread


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[RawClient]:
    with RawClient(broker.port) as connection:
        yield connection


def test_the_first_search_for_a_coordinator_makes_the_topic_and_finds_it(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as fresh, RawClient(fresh.port) as client:
        found = client.ask(
            wire.FindCoordinatorRequest(key="group"), 2, wire.FindCoordinatorResponse
        )
        assert (found.error_code, found.node_id, found.port) == (0, 0, fresh.port)
        again = client.ask(
            wire.FindCoordinatorRequest(coordinator_keys=["group", "other"]),
            6,
            wire.FindCoordinatorResponse,
        )
        assert [each.key for each in again.coordinators] == ["group", "other"]
        assert {each.port for each in again.coordinators} == {fresh.port}


@pytest.mark.parametrize(("key_type", "words"), [(2, "Share groups"), (9, "Coordinators")])
def test_coordinators_that_are_not_served_are_refused_in_words(
    client: RawClient, key_type: int, words: str
) -> None:
    request = wire.FindCoordinatorRequest(key="tx", key_type=key_type)
    one = client.ask(request, 3, wire.FindCoordinatorResponse)
    assert one.error_code == ErrorCode.INVALID_REQUEST
    assert one.error_message is not None
    assert one.error_message.startswith(words)
    request = wire.FindCoordinatorRequest(coordinator_keys=["tx"], key_type=key_type)
    several = client.ask(request, 6, wire.FindCoordinatorResponse).coordinators
    assert [each.error_code for each in several] == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("version", range(6))
def test_idempotent_producers_get_ids(client: RawClient, version: int) -> None:
    request = wire.InitProducerIdRequest(transactional_id=None)
    answers = [client.ask(request, version, wire.InitProducerIdResponse) for _ in range(3)]
    assert len({answer.producer_id for answer in answers}) == 3
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(0, 0)}


def joined(client: RawClient, group_id: str, version: int) -> wire.JoinGroupResponse:
    """The one member of a group, through both of its joins where it takes two."""
    request = wire.JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000 if version else -1,
        protocol_type="consumer",
        protocols=[wire.JoinGroupRequestProtocol(name="range", metadata=b"metadata")],
    )
    answer = client.ask(request, version, wire.JoinGroupResponse)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        assert version >= 4
        request.member_id = answer.member_id
        answer = client.ask(request, version, wire.JoinGroupResponse)
    assert answer.error_code == ErrorCode.NONE
    return answer


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_syncs_heartbeats_and_leaves_in_every_version(
    client: RawClient, version: int
) -> None:
    group_id = f"group-{version}"
    member = joined(client, group_id, version)
    assert member.leader == member.member_id
    assert [(each.member_id, each.metadata) for each in member.members] == [
        (member.member_id, b"metadata")
    ]
    assignment = wire.SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"mine")
    sync = wire.SyncGroupRequest(
        group_id=group_id,
        generation_id=member.generation_id,
        member_id=member.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[assignment],
    )
    synced = client.ask(sync, min(version, 5), wire.SyncGroupResponse)
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    heartbeat = wire.HeartbeatRequest(
        group_id=group_id, generation_id=member.generation_id, member_id=member.member_id
    )
    assert client.ask(heartbeat, min(version, 4), wire.HeartbeatResponse).error_code == 0
    leave = wire.LeaveGroupRequest(group_id=group_id)
    if version < 3:
        leave.member_id = member.member_id
    else:
        leave.members = [wire.MemberIdentity(member_id=member.member_id)]
    left = client.ask(leave, min(version, 5), wire.LeaveGroupResponse)
    assert left.error_code == 0
    assert [each.error_code for each in left.members] == ([] if version < 3 else [0])


def test_from_version_5_a_sync_must_name_its_protocol(client: RawClient) -> None:
    request = wire.SyncGroupRequest(group_id="group", member_id="anna", protocol_type="consumer")
    answer = client.ask(request, 5, wire.SyncGroupResponse)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def commit_of(topic_id: Uuid, name: str = TOPIC) -> wire.OffsetCommitRequest:
    partitions = [
        wire.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=42, committed_metadata="why"
        )
        for partition in (0, 7)
    ]
    topic = wire.OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=partitions)
    return wire.OffsetCommitRequest(group_id="committed", topics=[topic])


def id_of_topic(client: RawClient) -> Uuid:
    request = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=TOPIC)])
    return client.ask(request, 12, wire.MetadataResponse).topics[0].topic_id


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_are_committed_and_unknown_partitions_refused(
    client: RawClient, version: int
) -> None:
    answer = client.ask(commit_of(id_of_topic(client)), version, wire.OffsetCommitResponse)
    errors = {each.partition_index: each.error_code for each in answer.topics[0].partitions}
    assert errors == {0: 0, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    nowhere = client.ask(commit_of(UNKNOWN_ID, "nowhere"), version, wire.OffsetCommitResponse)
    by_id = version >= 10
    missing = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {each.error_code for each in nowhere.topics[0].partitions} == {missing}


@pytest.mark.parametrize("version", range(1, 8))
def test_offsets_of_one_group_are_fetched(client: RawClient, version: int) -> None:
    client.ask(commit_of(id_of_topic(client)), 9, wire.OffsetCommitResponse)
    topics = [wire.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0, 1])]
    request = wire.OffsetFetchRequest(group_id="committed", topics=topics)
    answer = client.ask(request, version, wire.OffsetFetchResponse)
    found = [(each.committed_offset, each.metadata) for each in answer.topics[0].partitions]
    assert found == [(42, "why"), (-1, "")]
    if version >= 2:
        request.topics = None
        every = client.ask(request, version, wire.OffsetFetchResponse)
        assert [each.partition_index for each in every.topics[0].partitions] == [0]


def test_topics_that_nobody_knows_come_last(client: RawClient) -> None:
    topic_id = id_of_topic(client)
    topics = [
        wire.OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0])
        for each in (UNKNOWN_ID, topic_id, Uuid(b"u" * 16), topic_id)
    ]
    group = wire.OffsetFetchRequestGroup(group_id="nobody's", topics=topics)
    answer = client.ask(wire.OffsetFetchRequest(groups=[group]), 10, wire.OffsetFetchResponse)
    found = [each.topic_id for each in answer.groups[0].topics]
    assert found == [topic_id, topic_id, UNKNOWN_ID, Uuid(b"u" * 16)]


@pytest.mark.parametrize("version", range(8, 11))
def test_offsets_of_several_groups_are_fetched(client: RawClient, version: int) -> None:
    topic_id = id_of_topic(client)
    client.ask(commit_of(topic_id), 10, wire.OffsetCommitResponse)
    topics = [
        wire.OffsetFetchRequestTopics(name=TOPIC, topic_id=topic_id, partition_indexes=[0]),
        wire.OffsetFetchRequestTopics(name="nowhere", topic_id=UNKNOWN_ID, partition_indexes=[0]),
    ]
    groups = [
        wire.OffsetFetchRequestGroup(group_id="committed", topics=topics),
        wire.OffsetFetchRequestGroup(group_id="committed", topics=None),
        wire.OffsetFetchRequestGroup(group_id="nobody's", topics=None),
    ]
    answer = client.ask(wire.OffsetFetchRequest(groups=groups), version, wire.OffsetFetchResponse)
    named, every, nobody = answer.groups
    found = [each.partitions[0] for each in named.topics]
    assert [each.committed_offset for each in found] == [42, -1]
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.NONE
    assert [each.error_code for each in found] == [0, unknown]
    assert [each.partitions[0].committed_offset for each in every.topics] == [42]
    if version >= 10:
        assert every.topics[0].topic_id == topic_id
    assert nobody.topics == []


@pytest.mark.parametrize("version", range(1, 9))
def test_without_a_coordinator_a_fetch_says_so_where_its_version_can(
    tmp_path: Path, version: int
) -> None:
    with BrokerThread(tmp_path) as fresh, RawClient(fresh.port) as client:
        request = wire.OffsetFetchRequest()
        if version < 8:
            request.group_id = "group"
            request.topics = [wire.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0, 1])]
        else:
            request.groups = [wire.OffsetFetchRequestGroup(group_id="group", topics=None)]
        answer = client.ask(request, version, wire.OffsetFetchResponse)
        codes = [answer.error_code] if version >= 2 else []
        codes += [each.error_code for each in answer.groups]
        codes += [each.error_code for topic in answer.topics for each in topic.partitions]
        errors = [code for code in codes if code]
        assert set(errors) == {ErrorCode.NOT_COORDINATOR}
        assert len(errors) == (2 if version == 1 else 1)


@pytest.mark.parametrize("version", range(6))
def test_a_group_is_listed_until_it_is_deleted(client: RawClient, version: int) -> None:
    group_id = f"listed-{version}"
    member = joined(client, group_id, 9)
    request = wire.ListGroupsRequest()
    if version >= 4:
        request.states_filter = ["CompletingRebalance"]
    listed = client.ask(request, version, wire.ListGroupsResponse)
    assert listed.error_code == ErrorCode.NONE
    assert group_id in [group.group_id for group in listed.groups]
    deletion = wire.DeleteGroupsRequest(groups_names=[group_id, "nobody's", group_id])
    leave = wire.LeaveGroupRequest(
        group_id=group_id, members=[wire.MemberIdentity(member_id=member.member_id)]
    )
    for error in (ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        answer = client.ask(deletion, min(version, 2), wire.DeleteGroupsResponse)
        assert [(each.group_id, each.error_code) for each in answer.results] == [
            (group_id, error),
            ("nobody's", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        client.ask(leave, 5, wire.LeaveGroupResponse)
    every = client.ask(wire.ListGroupsRequest(), version, wire.ListGroupsResponse)
    assert group_id not in [group.group_id for group in every.groups]


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described_and_a_missing_one_is_dead(client: RawClient, version: int) -> None:
    group_id = f"described-{version}"
    member = joined(client, group_id, 9)
    request = wire.DescribeGroupsRequest(groups=[group_id, "nobody's"])
    request.include_authorized_operations = version >= 3
    answer = client.ask(request, version, wire.DescribeGroupsResponse)
    group, missing = answer.groups
    assert (group.error_code, group.group_state) == (0, "CompletingRebalance")
    assert [each.member_id for each in group.members] == [member.member_id]
    assert (group.authorized_operations > 0) == (version >= 3)
    unknown = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
    assert (missing.error_code, missing.group_state) == (unknown, "Dead")


def test_offsets_of_members_whose_subscription_cannot_be_read_are_in_use(client: RawClient) -> None:
    joined(client, "strange", 9)
    partitions = [wire.OffsetDeleteRequestPartition(partition_index=0)]
    topics = [wire.OffsetDeleteRequestTopic(name=TOPIC, partitions=partitions)]
    request = wire.OffsetDeleteRequest(group_id="strange", topics=topics)
    answer = client.ask(request, 0, wire.OffsetDeleteResponse)
    (partition,) = answer.topics[0].partitions
    assert partition.error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_offsets_are_deleted_and_then_not_found(client: RawClient) -> None:
    client.ask(commit_of(id_of_topic(client)), 9, wire.OffsetCommitResponse)
    partitions = [wire.OffsetDeleteRequestPartition(partition_index=index) for index in (0, 7)]
    topics = [wire.OffsetDeleteRequestTopic(name=TOPIC, partitions=partitions)]
    request = wire.OffsetDeleteRequest(group_id="committed", topics=topics)
    answer = client.ask(request, 0, wire.OffsetDeleteResponse)
    errors = {each.partition_index: each.error_code for each in answer.topics[0].partitions}
    assert errors == {0: 0, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    asked = wire.OffsetFetchRequest(
        group_id="committed",
        topics=[wire.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])],
    )
    found = client.ask(asked, 5, wire.OffsetFetchResponse)
    assert [each.committed_offset for each in found.topics[0].partitions] == [-1]
    request.group_id = "nobody's"
    missing = client.ask(request, 0, wire.OffsetDeleteResponse)
    assert (missing.error_code, missing.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
