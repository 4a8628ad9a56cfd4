"""Byte for byte and value for value: our codecs beside Kafka's own generated classes.

Random messages of every message and version that we have, and of every record that we write to the
metadata log, to `__consumer_offsets` and to `__remote_log_metadata`, are encoded by us, decoded and
encoded again by Kafka, and decoded by us. The same bytes must come back, and Kafka must have
understood the same values: its JSON of the message is compared with ours.
"""

import base64
import json
import random
import re
import zipfile
from functools import cache
from typing import cast

import pytest

from tierlog.bench.harness.processes.kafka_peer import KAFKA_VERSION, kafka_jars
from tierlog.clients.errors import ErrorCode, ProtocolError
from tierlog.clients.protocol.api import APIS, SERVED, Api, ApiKey
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.schema import (
    FieldSpec,
    FieldType,
    Message,
    Struct,
    fields_of,
    version_range,
)
from tierlog.coordinator import group_records
from tierlog.coordinator.consumer import consumer_schemas
from tierlog.coordinator.transaction import transaction_records
from tierlog.replication.metadata import metadata_records
from tierlog.tests.clients.protocol.definitions import KafkaDefinition, our_definition
from tierlog.tests.clients.protocol.served_messages import (
    MESSAGES_PER_VERSION,
    identify,
    message_classes,
    message_versions,
    random_message,
    versions_of,
)
from tierlog.tiering.metadata import metadata_events

from .java_programs import run_java

pytestmark = pytest.mark.requires("java", "mvn")
DAMAGED_PER_VERSION = 30
RECORDS = (
    metadata_records,
    group_records,
    consumer_schemas,
    transaction_records,
    metadata_events,
)


def record_classes() -> list[type[Message]]:
    """The messages that are values and keys of records, wherever they are declared."""
    return [
        cls
        for module in RECORDS
        for cls in vars(module).values()
        if isinstance(cls, type) and issubclass(cls, Message) and cls.__module__ == module.__name__
    ]


VERSIONS = [*message_versions(), *versions_of(record_classes())]


def camel_case(name: str) -> str:
    first, *others = name.replace("kraft", "kRaft").split("_")
    return first + "".join(word.capitalize() for word in others)


def as_kafka_json(struct: Struct, version: int) -> dict[str, object]:
    """What Kafka's JSON converters write for a message with these values."""
    values: dict[str, object] = {}
    for spec in fields_of(type(struct)):
        if not spec.versions.includes(version):
            continue
        value: object = getattr(struct, spec.name)
        if spec.tag is None or not _is_default(spec, value):
            values.update(_json_member(spec, value, version))
    return values


def _is_default(spec: FieldSpec, value: object) -> bool:
    return value == ([] if spec.default == () else spec.default)


def _json_member(spec: FieldSpec, value: object, version: int) -> dict[str, object]:
    name = camel_case(spec.name)
    if spec.type.kind == "records":
        # Kafka's converters leave the records out and say how long they are.
        return (
            {name: None} if value is None else {f"{name}SizeInBytes": len(cast(memoryview, value))}
        )
    return {name: _json_value(spec.type, value, version)}


def _json_value(field_type: FieldType, value: object, version: int) -> object:
    if value is None:
        return None
    if isinstance(value, list):
        element = field_type.element
        assert element is not None
        elements = cast(list[object], value)
        return [_json_value(element, one, version) for one in elements]
    if isinstance(value, Struct):
        return as_kafka_json(value, version)
    if isinstance(value, bytes):
        encoded = base64.b64encode(value)
        if field_type.kind == "uuid":
            encoded = base64.urlsafe_b64encode(value).rstrip(b"=")
        return encoded.decode()
    return value


@cache
def java_answers() -> dict[tuple[str, int], list[tuple[str, str]]]:
    """For every message and version: what we sent and what Kafka answered. One Java for all."""
    asked = [
        (cls.__name__, version, encode_bytes(random_message(cls, version, seed), version).hex())
        for cls, version in VERSIONS
        for seed in range(MESSAGES_PER_VERSION)
    ]
    lines = run_java(
        "MessageEcho.java", [f"{name} {version} {sent}" for name, version, sent in asked]
    )
    assert len(lines) == len(asked)
    answers: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for (name, version, sent), line in zip(asked, lines, strict=True):
        answers.setdefault((name, version), []).append((sent, line))
    return answers


@pytest.mark.parametrize(("cls", "version"), VERSIONS, ids=identify)
def test_kafka_reads_and_writes_the_same_bytes_and_values(cls: type[Message], version: int) -> None:
    answers = java_answers()[cls.__name__, version]
    assert len(answers) == MESSAGES_PER_VERSION
    for sent, answer in answers:
        returned, _, values = answer.partition("\t")
        assert returned == sent, values
        message, end = decode(cls, version, bytes.fromhex(returned))
        assert end == len(returned) // 2
        assert json.loads(values) == as_kafka_json(message, version)


def damaged_messages() -> list[tuple[type[Message], int, bytes]]:
    """Messages with one to three bytes changed, mostly into lengths that lie."""
    chance = random.Random("damaged messages")
    damaged: list[tuple[type[Message], int, bytes]] = []
    for cls, version in message_versions():
        for seed in range(DAMAGED_PER_VERSION):
            encoded = bytearray(encode_bytes(random_message(cls, version, seed), version))
            for _ in range(chance.randint(1, 3) if encoded else 0):
                place = chance.randrange(len(encoded))
                encoded[place] = chance.choice((0, 1, 2, 5, 0x7F, 0x80, 0xFE, 0xFF))
            damaged.append((cls, version, bytes(encoded)))
    return damaged


def understand(
    cls: type[Message], version: int, data: bytes
) -> tuple[Message, int] | ProtocolError:
    try:
        return decode(cls, version, data)
    except ProtocolError as error:
        return error


def test_what_kafka_refuses_we_refuse_and_what_it_understands_we_understand() -> None:
    asked = damaged_messages()
    lines = run_java("MessageEcho.java", [f"{c.__name__} {v} {data.hex()}" for c, v, data in asked])
    refused = 0
    for (cls, version, data), line in zip(asked, lines, strict=True):
        returned, _, said = line.partition("\t")
        understood = understand(cls, version, data)
        if isinstance(understood, ProtocolError):
            refused += 1
            # Kafka believes the tag alone; we also want the size that was announced with it.
            assert returned == "error" or "tagged field" in understood.message, (cls, version, said)
            continue
        message, end = understood
        if end < len(data):
            assert said == f"{len(data) - end} bytes left over", (cls, version, data.hex())
            continue
        if "Invalid raw tag field list" in said:
            # Kafka reads unknown tags in any order, and only cannot write them again.
            continue
        # Values are compared, since Kafka hands on tagged fields that it does not know.
        assert decode(cls, version, bytes.fromhex(returned))[0] == message
    assert refused > len(asked) // 20


@pytest.mark.parametrize("cls", message_classes(), ids=identify)
def test_a_message_is_declared_as_in_kafkas_own_jar(cls: type[Message]) -> None:
    with zipfile.ZipFile(kafka_jars() / f"kafka-clients-{KAFKA_VERSION}.jar") as jar:
        text = jar.read(f"common/message/{cls.__name__}.json").decode()
    assert our_definition(cls) == KafkaDefinition(text).message()


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_an_api_is_taken_on_the_listeners_that_kafka_takes_it_on(api: Api) -> None:
    with zipfile.ZipFile(kafka_jars() / f"kafka-clients-{KAFKA_VERSION}.jar") as jar:
        text = jar.read(f"common/message/{api.name}Request.json").decode()
    (named,) = re.findall(r'^ *"listeners": (\[.*\]),$', text, flags=re.MULTILINE)
    assert {kind.value.lower() for kind in api.listeners} == set(json.loads(named))


def test_the_versions_and_error_codes_are_kafkas() -> None:
    lines = run_java("ProtocolTables.java", [])
    apis = {tuple(map(int, line.split()[1:])) for line in lines if line.startswith("api ")}
    errors = {tuple(line.split()[1:]) for line in lines if line.startswith("error ")}
    served = {
        (api.key, api.lowest_version, api.highest_version, api.first_flexible_version)
        for api in APIS.values()
    }
    assert served <= apis
    assert errors == {
        (str(int(code)), code.name, str(code.is_retriable).lower()) for code in ErrorCode
    }
    names = {tuple(line.split()[1:]) for line in lines if line.startswith("key ")}
    assert names <= {(str(int(key)), key.name) for key in ApiKey}


def test_the_records_are_there() -> None:
    names = {cls.__name__ for cls in record_classes()}
    assert names >= {"PartitionRecord", "OffsetCommitValue", "RemoteLogSegmentMetadataRecord"}


def test_produce_0_to_2_are_announced_though_no_message_has_them() -> None:
    (request,) = (cls for cls in message_classes() if cls.__name__ == "ProduceRequest")
    assert SERVED[ApiKey.PRODUCE].lowest_version == 0
    assert version_range(request.versions).lowest == 3
