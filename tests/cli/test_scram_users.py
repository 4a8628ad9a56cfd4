"""`tierlog format --add-scram`: Kafka's `ScramParserTest`, and a broker that has the user."""

import base64
from pathlib import Path

import pytest

from tierlog.cli.scram_users import scram_user
from tierlog.clients.errors import KafkaError
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.sasl.scram_keys import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
)
from tierlog.replication.metadata.metadata_records import UserScramCredentialRecord
from tierlog.tests.broker_process import BrokerThread

from .formatted_node import Node

SALT = b"a salt of many bytes"


def user(argument: str) -> UserScramCredentialRecord:
    return scram_user(argument, SystemEnvironment())


def credential(
    mechanism: ScramMechanism, password: str, salt: bytes, count: int
) -> ScramCredential:
    return credential_of(mechanism, salted_password(mechanism, password, salt, count), salt, count)


def kept(record: UserScramCredentialRecord) -> ScramCredential:
    return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)


def test_a_password_is_salted_anew_each_time() -> None:
    first, second = (user("SCRAM-SHA-256=[name=alice,password=hidden]") for _ in range(2))
    assert first.salt != second.salt
    assert len(first.salt) >= 24
    assert (first.name, first.mechanism, first.iterations) == ("alice", 1, 4096)
    assert kept(first) == credential(SCRAM_SHA_256, "hidden", first.salt, 4096)


def test_salt_and_iterations_may_be_stated_and_values_quoted() -> None:
    salt = base64.b64encode(SALT).decode()
    text = f'SCRAM-SHA-512=[name="bob",iterations=8192,salt="{salt}",password="hid=den"]'
    assert kept(user(text)) == credential(SCRAM_SHA_512, "hid=den", SALT, 8192)


def test_a_salted_password_keeps_the_password_out_of_the_command() -> None:
    salted = salted_password(SCRAM_SHA_256, "hidden", SALT, 4096)
    salt, text = (base64.b64encode(each).decode() for each in (SALT, salted))
    record = user(f"SCRAM-SHA-256=[name=carol,salt={salt},saltedpassword={text}]")
    assert kept(record) == credential(SCRAM_SHA_256, "hidden", SALT, 4096)


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("SCRAM-SHA-256", "Failed to find equals sign in the SCRAM argument"),
        ("SCRAM-SHA-384=[name=a,password=hidden]", "mechanism SCRAM-SHA-384 is not supported"),
        ("SCRAM-SHA-256=name=a,password=hidden]", "start with ["),
        ("SCRAM-SHA-256=[name=a,password=hidden", "end with ]"),
        ("SCRAM-SHA-256=[password=hidden]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "one of 'password' or 'saltedpassword'"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=aGlkZGVu]", "supply 'salt' with 'saltedpassword'"),
        ("SCRAM-SHA-256=[name=a,salt=hidden!,password=x]", "Failed to decode given salt"),
        ("SCRAM-SHA-256=[name=a,password=x,iterations=few]", "Failed to parse iterations count"),
        ("SCRAM-SHA-256=[name=a,password=x,iterations=4095]", "must be >= 4096"),
        ("SCRAM-SHA-256=[name=a,password=x,iterations=16385]", "must be <= 16384"),
        ("SCRAM-SHA-256=[name=a,hidden]", "No equals sign found"),
        ("SCRAM-SHA-256=[name=a,password=hidden,color=red]", "Unknown SCRAM configurations"),
    ],
)
def test_what_is_no_user_is_refused_without_its_password(argument: str, sentence: str) -> None:
    with pytest.raises(KafkaError) as raised:
        user(argument)
    assert sentence in raised.value.message
    assert "hidden" not in raised.value.message


def test_a_cluster_begins_with_the_users_of_its_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Node(tmp_path)
    users = ("SCRAM-SHA-256=[name=alice,password=hidden]", "SCRAM-SHA-512=[name=bob,password=x]")
    assert node.format("--add-scram", users[0], "-S", users[1]) == 0
    assert "hidden" not in "".join(capsys.readouterr())
    directories = ",".join(map(str, node.log_dirs))
    for _ in range(2):
        # The second start reads the log, and not the file of the first one.
        with BrokerThread(tmp_path, {"node.id": "1", "log.dirs": directories}) as running:
            assert running.broker is not None
            assert running.broker.context is not None
            image = running.broker.context.controller.image
            assert sorted(image.scram_credentials) == [("alice", 1), ("bob", 2)]
