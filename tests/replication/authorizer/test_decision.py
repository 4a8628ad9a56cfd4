"""The decision against an oracle at random, and the cases of Kafka's StandardAuthorizerTest."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.authorizer.acl import Acl
from tierlog.replication.authorizer.authorizer import (
    CLUSTER,
    AclOperation,
    AclPermission,
    PatternType,
    Resource,
    ResourceType,
)
from tierlog.replication.authorizer.standard_authorizer import StandardAuthorizer, super_users

from .access_comparison import differences

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS = (
    AclOperation(code) for code in range(3, 12)
)
ALL = AclOperation.ALL
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
ALICE, BOB, EVERYBODY = "User:alice", "User:bob", "User:*"
HERE, THERE = "127.0.0.1", "10.0.0.7"


def acl(
    name: str,
    operation: AclOperation = ALL,
    permission: AclPermission = ALLOW,
    *,
    kind: ResourceType = TOPIC,
    pattern: PatternType = LITERAL,
    principal: str = ALICE,
    host: str = "*",
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def loaded(acls: Sequence[Acl], *, everyone: bool = False) -> StandardAuthorizer:
    authorizer = StandardAuthorizer(super_users("User:root"), everyone)
    authorizer.update({Uuid(n.to_bytes(16, "big")): each for n, each in enumerate(acls)})
    authorizer.complete_load()
    return authorizer


def may(
    authorizer: StandardAuthorizer, operation: AclOperation, name: str, who: str = ALICE
) -> bool:
    return authorizer.authorize(who, HERE, operation, Resource(TOPIC, name))


def may_any(authorizer: StandardAuthorizer, operation: AclOperation = WRITE) -> bool:
    return authorizer.authorize_any(ALICE, HERE, operation, TOPIC)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32))
def test_it_answers_as_the_oracle_does(seed: int) -> None:
    assert list(differences(seed, 200)) == []


@pytest.mark.long
def test_it_answers_as_the_oracle_does_very_often() -> None:
    """All 2 million: `python -m tierlog.tests.replication.authorizer.access_comparison 2000000`."""
    assert list(differences(1, 200_000)) == []


@pytest.mark.parametrize(
    ("permitted", "implied"),
    [
        (READ, {READ, DESCRIBE}),
        (WRITE, {WRITE, DESCRIBE}),
        (DELETE, {DELETE, DESCRIBE}),
        (ALTER, {ALTER, DESCRIBE}),
        (DESCRIBE, {DESCRIBE}),
        (ALTER_CONFIGS, {ALTER_CONFIGS, DESCRIBE_CONFIGS}),
        (CREATE, {CREATE}),
        (CLUSTER_ACTION, {CLUSTER_ACTION}),
        (ALL, {each for each in AclOperation if each >= READ}),
    ],
)
def test_what_a_permission_implies_and_a_denial_does_not(
    permitted: AclOperation, implied: set[AclOperation]
) -> None:
    operations = [each for each in AclOperation if each >= READ]
    allowing = loaded([acl("t", permitted)])
    assert {each for each in operations if may(allowing, each, "t")} == implied
    denying = loaded([acl("t"), acl("t", permitted, DENY)])
    denied = {each for each in operations if not may(denying, each, "t")}
    assert denied == (set(operations) if permitted is ALL else {permitted})


def test_a_denial_wins_from_whatever_pattern() -> None:
    patterns = [("topic", LITERAL), ("to", PREFIXED), ("*", LITERAL)]
    for denied, pattern in patterns:
        authorizer = loaded(
            [
                *(acl(name, READ, pattern=each) for name, each in patterns),
                acl(denied, READ, DENY, pattern=pattern),
            ]
        )
        assert not may(authorizer, READ, "topic")
        assert may(authorizer, WRITE, "topic") is False


def test_the_shape_of_kafkas_example() -> None:
    """`testAuthorizationPriority` and the walk that StandardAuthorizerData explains."""
    authorizer = loaded(
        [
            acl("gar", WRITE, pattern=PREFIXED),
            acl("foobar", READ, pattern=PREFIXED),
            acl("foob", ALL),
            acl("foo", DESCRIBE_CONFIGS, pattern=PREFIXED),
            acl("fb", WRITE, pattern=PREFIXED),
            acl("f", CREATE, pattern=PREFIXED),
            acl("eeee", ALL),
        ]
    )
    assert may(authorizer, READ, "foobar")
    assert may(authorizer, DESCRIBE_CONFIGS, "foobar")
    assert may(authorizer, CREATE, "foobar")
    assert not may(authorizer, WRITE, "foobar")
    assert not may(authorizer, ALTER, "foobar")
    assert may(authorizer, ALTER, "foob")
    assert may(authorizer, WRITE, "gar")
    assert not may(authorizer, WRITE, "ga")


def test_hosts_and_principals_are_exact_or_everybody() -> None:
    authorizer = loaded(
        [
            acl("t", READ, host=HERE),
            acl("t", WRITE, principal=EVERYBODY, host=THERE),
            acl("t", DESCRIBE_CONFIGS, principal="Group:alice"),
        ]
    )
    topic = Resource(TOPIC, "t")
    assert authorizer.authorize(ALICE, HERE, READ, topic)
    assert not authorizer.authorize(ALICE, THERE, READ, topic)
    assert not authorizer.authorize(BOB, HERE, READ, topic)
    assert authorizer.authorize(BOB, THERE, WRITE, topic)
    assert not authorizer.authorize(BOB, HERE, WRITE, topic)
    assert not authorizer.authorize(ALICE, HERE, DESCRIBE_CONFIGS, topic)
    assert not authorizer.authorize(ALICE, HERE, READ, Resource(GROUP, "t"))


def test_an_ipv6_entry_means_the_address_however_it_is_written() -> None:
    """Java prints the peer in full; a person may write it short."""
    for written in ("0:0:0:0:0:0:0:1", "::1", "0000::0001"):
        authorizer = loaded([acl("t", READ, host=written)])
        topic = Resource(TOPIC, "t")
        assert authorizer.authorize(ALICE, "::1", READ, topic)
        assert authorizer.authorize(ALICE, "0:0:0:0:0:0:0:1", READ, topic)
        assert authorizer.authorize_any(ALICE, "::1", READ, TOPIC)
        assert not authorizer.authorize(ALICE, "::2", READ, topic)


def test_super_users_may_do_what_is_denied_to_all() -> None:
    authorizer = loaded([acl("*", ALL, DENY, principal=EVERYBODY)])
    assert may(authorizer, DELETE, "t", "User:root")
    assert authorizer.authorize_any("User:root", HERE, WRITE, TOPIC)
    assert not may(authorizer, DESCRIBE, "t")


def test_one_entry_for_one_user_shuts_all_others_out() -> None:
    """`allow.everyone.if.no.acl.found` counts entries of any principal, host and operation."""
    authorizer = loaded([acl("t", READ), acl("p", READ, pattern=PREFIXED)], everyone=True)
    assert may(authorizer, READ, "other", BOB)
    assert not may(authorizer, READ, "t", BOB)
    assert not may(authorizer, WRITE, "t")
    assert not may(authorizer, READ, "prefixed", BOB)
    assert authorizer.authorize(BOB, HERE, ALTER, CLUSTER)
    assert not may(loaded([acl("*", READ)], everyone=True), READ, "other", BOB)


def test_before_the_load_only_super_users_may_do_anything() -> None:
    authorizer = StandardAuthorizer(super_users("User:root"), True)
    authorizer.update({Uuid(bytes(16)): acl("t")})
    assert not may(authorizer, READ, "t")
    assert not may_any(authorizer)
    assert may(authorizer, READ, "t", "User:root")
    before = authorizer.epoch
    authorizer.complete_load()
    assert authorizer.epoch > before
    assert may(authorizer, READ, "t")


def test_each_change_raises_the_epoch_and_takes_effect() -> None:
    authorizer = loaded([])
    one, two = Uuid(b"1" * 16), Uuid(b"2" * 16)
    epochs = [authorizer.epoch]
    answers: list[bool] = []
    for change in (
        {one: acl("to", READ, pattern=PREFIXED)},
        {two: acl("topic", READ, DENY)},
        {two: None},
        {one: acl("other", READ)},
        {one: None},
    ):
        authorizer.update(change)
        epochs.append(authorizer.epoch)
        answers.append(may(authorizer, READ, "topic"))
    assert epochs == sorted(set(epochs))
    assert answers == [True, False, True, False, False]
    authorizer.update({})
    assert authorizer.epoch == epochs[-1]


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl("t", WRITE)], True),
        ([acl("t", READ)], False),
        ([acl("t", WRITE), acl("t", WRITE, DENY)], False),
        ([acl("t", WRITE), acl("t", ALL, DENY)], False),
        ([acl("t", WRITE), acl("t2", WRITE, DENY)], True),
        ([acl("topic", WRITE), acl("to", WRITE, DENY, pattern=PREFIXED)], False),
        ([acl("to", WRITE, pattern=PREFIXED), acl("topic", WRITE, DENY, pattern=PREFIXED)], True),
        ([acl("to", WRITE, pattern=PREFIXED), acl("t", WRITE, DENY, pattern=PREFIXED)], False),
        ([acl("to", WRITE, pattern=PREFIXED), acl("to", WRITE, DENY, pattern=PREFIXED)], False),
        ([acl("to", WRITE), acl("to", WRITE, DENY, pattern=PREFIXED)], False),
        ([acl("to", WRITE, pattern=PREFIXED), acl("to", WRITE, DENY)], True),
        ([acl("*", WRITE), acl("t", WRITE, DENY, pattern=PREFIXED)], True),
        ([acl("*", WRITE), acl("*", WRITE, DENY)], False),
        ([acl("t", WRITE), acl("*", WRITE, DENY, principal=EVERYBODY)], False),
        ([acl("t", WRITE), acl("*", WRITE, DENY, principal=BOB)], True),
        ([acl("t", WRITE), acl("*", WRITE, DENY, host=THERE)], True),
        ([acl("t", WRITE, principal=BOB)], False),
        ([acl("t", WRITE, principal=EVERYBODY)], True),
        ([acl("t", WRITE, host=THERE)], False),
        ([acl("t", WRITE, kind=GROUP)], False),
    ],
)
def test_any_resource_of_a_type(acls: list[Acl], expected: bool) -> None:
    """The dominance cases of AuthorizeByResourceType in AuthorizerTest."""
    assert may_any(loaded(acls)) is expected


def test_any_resource_where_everyone_may_use_what_has_no_entry() -> None:
    assert may_any(loaded([], everyone=True))
    assert may_any(loaded([acl("t", WRITE, DENY)], everyone=True))
    assert not may_any(loaded([acl("*", WRITE, DENY)], everyone=True))
    assert not may_any(loaded([acl("hard", READ, pattern=PREFIXED)], everyone=True))


def test_super_users_are_separated_by_semicolons() -> None:
    assert super_users("") == frozenset()
    assert super_users(" User:alice ; User:CN=a,O=b;;Group:x") == {
        "User:alice",
        "User:CN=a,O=b",
        "Group:x",
    }
    with pytest.raises(KafkaError, match="write User:bob") as refused:
        super_users("User:alice;bob")
    assert refused.value.code is ErrorCode.INVALID_CONFIG
