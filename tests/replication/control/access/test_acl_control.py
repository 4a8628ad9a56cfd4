"""AclControlManagerTest's observable cases: each entry and filter has its own result."""

from collections.abc import Sequence
from random import Random

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.authorizer.acl import Acl, AclFilter
from tierlog.replication.authorizer.authorizer import (
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from tierlog.replication.control.access import acl_control
from tierlog.replication.control.access.acl_control import create_acls, delete_acls
from tierlog.replication.control.controller_config import RECORDS_PER_OPERATION_MAX
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage

from ...authorizer.acls import ANY, ONE

RANDOM = Random(1)
TWO = ONE._replace(name="foo", pattern=PatternType.PREFIXED)
THREE = ONE._replace(principal="User:b", permission=AclPermission.DENY)
INVALID = ONE._replace(name="")


def new_id() -> Uuid:
    return Uuid(RANDOM.randbytes(16))


def with_acls(acls: Sequence[Acl], image: ClusterImage | None = None) -> ClusterImage:
    image = image or ClusterImage("cluster")
    delta = ClusterDelta(image)
    delta.replay_all(create_acls(image, acls, new_id).records)
    return delta.apply(image.offset + 1, 1)


def many(count: int) -> list[Acl]:
    return [ONE._replace(name=f"topic-{number}") for number in range(count)]


def test_each_new_entry_has_its_own_result() -> None:
    decision = create_acls(ClusterImage("cluster"), [ONE, INVALID, TWO], new_id)
    codes = [None if error is None else error.code for error in decision.answer]
    assert codes == [None, ErrorCode.INVALID_REQUEST, None]
    assert set(with_acls([ONE, INVALID, TWO]).acls.values()) == {ONE, TWO}


def test_what_exists_is_created_again_by_doing_nothing() -> None:
    image = with_acls([ONE])
    decision = create_acls(image, [ONE, TWO, TWO], new_id)
    assert decision.answer == [None] * 3
    assert len(decision.records) == 1
    assert with_acls([ONE], image).acls == image.acls


def test_each_filter_has_its_own_result() -> None:
    image = with_acls([ONE, TWO, THREE])
    literal = ANY._replace(pattern=PatternType.LITERAL)
    unknown = ANY._replace(resource_type=ResourceType.UNKNOWN)
    nothing = ANY._replace(principal="User:nobody")
    decision = delete_acls(image, [literal, unknown, nothing])
    first, second, third = decision.answer
    assert (sorted(first.deleted), first.error) == (sorted([ONE, THREE]), None)
    assert second.error is not None
    assert second.error.code is ErrorCode.INVALID_REQUEST
    assert (list(third.deleted), third.error) == ([], None)
    delta = ClusterDelta(image)
    delta.replay_all(decision.records)
    assert list(delta.apply(2, 1).acls.values()) == [TWO]


def test_an_entry_that_two_filters_match_is_in_both_results_and_deleted_once() -> None:
    """`testDeleteDedupe`."""
    specific = AclFilter(*ONE)
    decision = delete_acls(with_acls([ONE]), [ANY, specific])
    assert [list(each.deleted) for each in decision.answer] == [[ONE], [ONE]]
    assert len(decision.records) == 1


def test_a_request_writes_no_more_than_kafka_lets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert RECORDS_PER_OPERATION_MAX == 10_000
    monkeypatch.setattr(acl_control, "RECORDS_PER_OPERATION_MAX", 100)
    full = many(100)
    assert len(create_acls(ClusterImage("cluster"), full, new_id).records) == len(full)
    with pytest.raises(KafkaError, match="excessively large") as created:
        create_acls(ClusterImage("cluster"), [*full, TWO], new_id)
    assert created.value.code is ErrorCode.POLICY_VIOLATION
    image = with_acls(full)
    assert len(delete_acls(image, [ANY]).records) == len(full)
    with pytest.raises(KafkaError, match="more than 100 acls") as deleted:
        delete_acls(with_acls([TWO], image), [ANY])
    assert deleted.value.code is ErrorCode.INVALID_REQUEST


def test_a_removal_of_what_is_not_there_is_refused_by_the_image() -> None:
    image = with_acls([ONE])
    records = delete_acls(image, [ANY]).records
    delta = ClusterDelta(image)
    delta.replay_all(records)
    with pytest.raises(KafkaError, match="access control entry that does not exist"):
        delta.replay_all(records)


def test_the_operation_and_the_permission_are_part_of_an_entry() -> None:
    acls = [ONE, ONE._replace(operation=AclOperation.WRITE), ONE._replace(host="*")]
    assert len(with_acls(acls).acls) == 3
