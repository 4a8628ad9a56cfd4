"""Decisions on SCRAM credentials: Kafka's `Alter/DescribeUserScramCredentialsRequestTest`."""

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.sasl.scram_keys import SCRAM_SHA_256, SCRAM_SHA_512, salted_password
from tierlog.replication.control.access.scram_control import (
    alter_scram_credentials,
    describe_scram_credentials,
    secret_of,
)
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage
from tierlog.replication.metadata.metadata_records import (
    FeatureLevelRecord,
    UserScramCredentialRecord,
    decode_record,
    encode_record,
)
from tierlog.tests import wire

new_id = SystemEnvironment().random_uuid
_SALTED = salted_password(SCRAM_SHA_256, "pencil", b"salt", 4096)


def upsertion(
    name: str = "alice", mechanism: int = 1, iterations: int = 4096
) -> wire.ScramCredentialUpsertion:
    return wire.ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=_SALTED
    )


def deletion(name: str = "alice", mechanism: int = 1) -> wire.ScramCredentialDeletion:
    return wire.ScramCredentialDeletion(name=name, mechanism=mechanism)


Change = wire.ScramCredentialDeletion | wire.ScramCredentialUpsertion


def request(*changes: Change) -> wire.AlterUserScramCredentialsRequest:
    return wire.AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, wire.ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, wire.ScramCredentialUpsertion)],
    )


def image(*changes: Change, base: ClusterImage | None = None) -> ClusterImage:
    """The image after these changes, all of which are valid."""
    before = base or ClusterImage("cluster")
    decision = alter_scram_credentials(before, request(*changes), new_id)
    assert not any(error for _, error in decision.answer)
    delta = ClusterDelta(before)
    for record in decision.records:
        delta.replay(decode_record(encode_record(record)))
    return delta.apply(before.offset + len(decision.records), 1)


def codes(now: ClusterImage, *changes: Change) -> list[tuple[str, int]]:
    answer = alter_scram_credentials(now, request(*changes), new_id).answer
    return [(name, 0 if error is None else error.code) for name, error in answer]


def test_a_password_becomes_the_two_keys_that_verify_it() -> None:
    kept = image(upsertion()).scram_credentials["alice", 1]
    client_key = SCRAM_SHA_256.hmac(_SALTED, b"Client Key")
    assert kept.stored_key == SCRAM_SHA_256.hash(client_key)
    assert kept.server_key == SCRAM_SHA_256.hmac(_SALTED, b"Server Key")
    assert (kept.salt, kept.iterations) == (b"salt", 4096)
    with_both = image(upsertion(mechanism=2), base=image(upsertion()))
    assert len(with_both.scram_credentials["alice", 2].stored_key) == SCRAM_SHA_512.key_bytes


def test_a_credential_that_was_set_can_be_changed_and_removed() -> None:
    changed = image(upsertion(iterations=8192), base=image(upsertion()))
    assert changed.scram_credentials["alice", 1].iterations == 8192
    assert not image(deletion(), base=changed).scram_credentials


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (deletion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (deletion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=-1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (deletion("bob"), ErrorCode.RESOURCE_NOT_FOUND),
        (deletion(mechanism=2), ErrorCode.RESOURCE_NOT_FOUND),
        (upsertion(iterations=16384), ErrorCode.NONE),
        (deletion(), ErrorCode.NONE),
    ],
)
def test_each_change_has_kafkas_code(change: Change, code: ErrorCode) -> None:
    assert codes(image(upsertion()), change) == [(change.name, code)]


def test_a_user_that_is_named_twice_is_left_alone_and_the_others_are_not() -> None:
    now = image(upsertion())
    changes = (deletion(), upsertion(), upsertion("bob"), upsertion("carol"), upsertion("carol"))
    decision = alter_scram_credentials(now, request(*changes), new_id)
    duplicate = ErrorCode.DUPLICATE_RESOURCE
    assert codes(now, *changes) == [("alice", duplicate), ("bob", 0), ("carol", duplicate)]
    assert [each.name for each in decision.records if isinstance(each, UserScramCredentialRecord)]
    assert len(decision.records) == 1
    # An error that a change met by itself stays.
    wrong = codes(now, upsertion("bob", 9), upsertion("bob"))
    assert wrong == [("bob", ErrorCode.UNSUPPORTED_SASL_MECHANISM)]


def test_users_are_described_by_mechanism_and_iterations() -> None:
    now = image(upsertion("bob", 2, 8192), base=image(upsertion(), upsertion("carol")))
    everybody: list[list[str] | None] = [None, []]
    for everyone in everybody:
        described = describe_scram_credentials(now, everyone)
        assert [(each.name, list(each.iterations)) for each in described] == [
            ("alice", [(1, 4096)]),
            ("bob", [(2, 8192)]),
            ("carol", [(1, 4096)]),
        ]
    one, twice, none = describe_scram_credentials(now, ["bob", "alice", "alice", "nobody"])
    assert list(one.iterations) == [(2, 8192)]
    assert twice.error
    assert twice.error.code == ErrorCode.DUPLICATE_RESOURCE
    assert none.error
    assert none.error.code == ErrorCode.RESOURCE_NOT_FOUND
    assert not twice.iterations
    assert not none.iterations


def test_many_users_are_not_compared_with_each_other() -> None:
    """A request has up to a million names, and others wait for its answer."""
    compared = 0

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    names = [Name(f"user-{number}") for number in range(500)]
    described = describe_scram_credentials(ClusterImage("cluster"), [*names, names[0]])
    codes_by_name = {each.name: each.error.code for each in described if each.error}
    assert codes_by_name.pop(names[0]) == ErrorCode.DUPLICATE_RESOURCE
    assert set(codes_by_name.values()) == {ErrorCode.RESOURCE_NOT_FOUND}
    assert compared < 10 * len(names)


def test_nothing_that_carries_a_key_shows_it() -> None:
    record, _ = alter_scram_credentials(ClusterImage("c"), request(upsertion()), new_id).records
    now = image(upsertion())
    shown = f"{record!r} {upsertion()!r} {request(upsertion())!r} {now.scram_credentials!r}"
    assert "salt" not in shown.replace("salted_password", "")
    assert repr(_SALTED) not in shown


@pytest.mark.parametrize(("level", "code"), [(7, 35), (10, 35), (11, 0), (30, 0)])
def test_a_cluster_of_an_old_version_has_no_records_for_users(level: int, code: int) -> None:
    """Kafka checks before it looks at the change, and after it has seen a name twice."""
    delta = ClusterDelta(ClusterImage("cluster"))
    delta.replay(FeatureLevelRecord(name="metadata.version", feature_level=level))
    now = delta.apply(1, 1)
    assert codes(now, upsertion(), upsertion("bob")) == [("alice", code), ("bob", code)]
    if code:
        assert codes(now, deletion(), upsertion(""), upsertion("")) == [("alice", 35), ("", 35)]
        assert not alter_scram_credentials(now, request(upsertion()), new_id).records


def test_the_secret_comes_with_the_first_user_and_stays() -> None:
    before = ClusterImage("cluster")
    assert secret_of(before) == b""
    first = image(upsertion())
    assert len(secret_of(first)) > 40
    assert secret_of(image(upsertion("bob"), base=first)) == secret_of(first)
    assert secret_of(image(deletion(), base=first)) == secret_of(first)
    assert secret_of(image(upsertion())) != secret_of(first)
