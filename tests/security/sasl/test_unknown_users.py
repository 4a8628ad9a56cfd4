"""A user that there is not looks like those that there are."""

import hashlib
from collections import Counter
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from tierlog.clients.sasl.scram_keys import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramCredential,
    random_text,
)
from tierlog.security.sasl.unknown_users import (
    CREDENTIALS_READ_MAX,
    FORMS_MAX,
    USUAL_FORMS,
    CredentialForm,
    FormsOfUsers,
    form_of,
    stand_in_credential,
    weighted_forms,
)
from tierlog.tests import wire
from tierlog.tests.broker_process import BrokerThread, RawClient

SECRET = b"the same on all brokers"
NAMES = [f"name-{number}" for number in range(2_000)]


def credential(iterations: int = 4096, salt: bytes = b"") -> ScramCredential:
    return ScramCredential(salt or random_text(bytes(range(17))), b"", b"", iterations)


def forms_of_strangers(*users: ScramCredential, secret: bytes = SECRET) -> list[CredentialForm]:
    forms = weighted_forms(users)
    return [form_of(stand_in_credential(SCRAM_SHA_256, name, secret, forms)) for name in NAMES]


def test_without_users_a_stranger_looks_like_one_of_kafkas_tools() -> None:
    assert set(forms_of_strangers()) == {USUAL_FORMS[0][0]}
    assert form_of(credential()) == USUAL_FORMS[0][0]


def test_the_iterations_of_the_users_are_those_of_strangers() -> None:
    assert set(forms_of_strangers(credential(8192))) == {CredentialForm(8192, 0)}


def test_the_salts_of_the_users_are_those_of_strangers() -> None:
    """librdkafka makes 64 bytes of any value, Java's client a number as text."""
    users = credential(salt=bytes(range(64))), credential(salt=b"salt")
    assert set(forms_of_strangers(*users)) == {CredentialForm(4096, 64), CredentialForm(4096, 4)}
    text = stand_in_credential(SCRAM_SHA_256, "a", SECRET, USUAL_FORMS).salt
    assert text.isalnum()


def test_each_form_is_as_frequent_among_strangers_as_among_users() -> None:
    users = [credential(4096)] * 70 + [credential(8192)] * 20 + [credential(16384)] * 10
    shares = Counter(form.iterations for form in forms_of_strangers(*users))
    for iterations, count in ((4096, 70), (8192, 20), (16384, 10)):
        assert abs(shares[iterations] / len(NAMES) - count / 100) < 0.03


def test_another_user_changes_hardly_any_stranger() -> None:
    users = [credential(4096)] * 50 + [credential(8192)] * 50
    before, after = forms_of_strangers(*users), forms_of_strangers(*users, credential(8192))
    changed = sum(one != other for one, other in zip(before, after, strict=True))
    assert changed < 0.02 * len(NAMES)


def test_a_stranger_is_the_same_on_all_brokers_and_another_in_each_cluster() -> None:
    users = credential(4096), credential(8192)
    forms = weighted_forms(users)

    def salts(secret: bytes, mechanism: int = 0) -> list[bytes]:
        kind = (SCRAM_SHA_256, SCRAM_SHA_512)[mechanism]
        return [stand_in_credential(kind, name, secret, forms).salt for name in NAMES[:100]]

    assert salts(SECRET) == salts(SECRET)
    assert len({*salts(SECRET), *salts(b"another"), *salts(SECRET, 1)}) == 300
    assert forms_of_strangers(*users) != forms_of_strangers(*users, secret=b"another")


def test_what_is_counted_is_bounded() -> None:
    many = (credential(4096 + number) for number in range(10 * CREDENTIALS_READ_MAX))
    assert len(weighted_forms(many)) == FORMS_MAX
    assert next(many).iterations == 4096 + CREDENTIALS_READ_MAX


def test_users_are_counted_when_they_have_changed_and_by_mechanism() -> None:
    users = {("alice", 1): credential(8192)}
    forms = FormsOfUsers(lambda: users)
    assert forms(SCRAM_SHA_256) == [(CredentialForm(8192, 0), 1)]
    assert forms(SCRAM_SHA_256) is forms(SCRAM_SHA_256)
    assert forms(SCRAM_SHA_512) == USUAL_FORMS
    users = {("alice", 1): credential(4097), ("alice", 2): credential(9000)}
    assert forms(SCRAM_SHA_256) == [(CredentialForm(4097, 0), 1)]
    assert forms(SCRAM_SHA_512) == [(CredentialForm(9000, 0), 1)]


def test_no_text_of_kafkas_is_taken_for_bytes() -> None:
    for number in range(2_000):
        salt = random_text(hashlib.sha256(b"%d" % number).digest())
        assert form_of(credential(salt=salt)).salt_bytes == 0


@pytest.mark.slow
def test_only_the_cluster_can_tell_who_is_no_user(tmp_path: Path) -> None:
    """The secret comes with the first user, whoever makes it; no request shows it."""
    name = "tierlog.scram.unknown.users.secret"
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    with BrokerThread(tmp_path, properties) as running:
        assert running.broker is not None
        door = {each.name: each.port for each in running.broker.listeners.bound}
        before = challenge(door["SASL_PLAINTEXT"], "nobody")
        assert b",i=4096" in before
        with RawClient(door["PLAINTEXT"]) as admin:
            user = wire.ScramCredentialUpsertion(
                name="alice", mechanism=1, iterations=8192, salt=bytes(32), salted_password=b"x"
            )
            request = wire.AlterUserScramCredentialsRequest(upsertions=[user])
            answer = admin.ask(request, 0, wire.AlterUserScramCredentialsResponse)
            assert answer.results[0].error_code == 0
            after = challenge(door["SASL_PLAINTEXT"], "nobody")
            assert after.partition(b",i=")[2] == b"8192"
            assert len(after) == len(challenge(door["SASL_PLAINTEXT"], "alice"))
            assert (
                after.partition(b"s=")[2]
                == challenge(door["SASL_PLAINTEXT"], "nobody").partition(b"s=")[2]
            )
            for each in ("", "1", "0"):
                asked = wire.DescribeConfigsResource(resource_type=4, resource_name=each)
                described = admin.ask(
                    wire.DescribeConfigsRequest(resources=[asked]), 4, wire.DescribeConfigsResponse
                )
                assert all(config.name != name for config in described.results[0].configs)
            # This replaces all that was set for all brokers.
            replacement = AlterConfigsResource(
                resource_type=4,
                resource_name="",
                configs=[AlterableConfig(name="min.insync.replicas", value="1")],
            )
            alteration = AlterConfigsRequest(resources=[replacement])
            replaced = admin.ask(alteration, 2, AlterConfigsResponse)
            assert replaced.responses[0].error_code == ErrorCode.NONE
            assert (
                challenge(door["SASL_PLAINTEXT"], "nobody").partition(b"s=")[2]
                == after.partition(b"s=")[2]
            )
            # Whoever set it would know it.
            replacement.configs.append(AlterableConfig(name=name, value="mine"))
            refused = admin.ask(alteration, 2, AlterConfigsResponse)
            assert refused.responses[0].error_code == ErrorCode.INVALID_REQUEST


def challenge(port: int, user: str) -> bytes:
    """The server's first message."""
    with RawClient(port) as client:
        client.ask(
            wire.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1, wire.SaslHandshakeResponse
        )
        first = wire.SaslAuthenticateRequest(auth_bytes=f"n,,n={user},r=mine".encode())
        return client.ask(first, 2, wire.SaslAuthenticateResponse).auth_bytes
