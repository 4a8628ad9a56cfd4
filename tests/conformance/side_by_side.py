"""Two brokers, Apache Kafka and ours, asked the same and compared answer by answer.

What legitimately differs between two clusters is taken out before comparing: ids that are drawn at
random, ports, times, and how far the metadata log has come.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeAlias, cast

from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResult,
)
from tierlog.clients.protocol.messages.create_topics import CreatableTopicConfigs
from tierlog.clients.protocol.messages.delete_topics import DeletableTopicResult
from tierlog.clients.protocol.messages.describe_configs import DescribeConfigsResourceResult
from tierlog.clients.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsResult,
)
from tierlog.clients.protocol.messages.elect_leaders import ReplicaElectionResult
from tierlog.clients.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsTopicResponse,
)
from tierlog.clients.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderTopicResult,
)
from tierlog.clients.protocol.schema import Message, Struct
from tierlog.clients.record.batch import batches
from tierlog.tests.recordings.kafka_node import kafka_node

from ..broker_process import BrokerProcess, RawClient

Plain: TypeAlias = "bool | int | float | str | bytes | list[Plain] | dict[str, Plain] | None"

OUR_OWN = frozenset(
    {
        "cluster_id",
        "port",
        "throttle_time_ms",
        "finalized_features_epoch",
        "session_id",
        "controller_id",
    }
)
"""Fields whose values mean nothing outside of one cluster."""


def plain(value: object, ignored: frozenset[str] = OUR_OWN) -> Plain:
    """A message as dictionaries and lists, without what is ignored; topic ids as set or not."""
    if isinstance(value, Struct):
        return {
            name: plain(getattr(value, name), ignored)
            for name in type(value).__declared__
            if name not in ignored
        }
    if isinstance(value, list):
        return [plain(item, ignored) for item in _comparable(cast("list[object]", value))]
    if isinstance(value, memoryview):
        # Kafka cuts off in the middle of a batch; we send whole ones only.
        return b"".join(bytes(batch.view) for batch in batches(cast("memoryview", value)))
    if isinstance(value, bytes) and len(value) == 16:
        return "no id" if value == ZERO_UUID else "an id"
    assert value is None or isinstance(value, bool | int | float | str | bytes)
    return value


def _name(item: object) -> str:
    named = cast("Struct", item)
    fields = ("name", "user", "mechanism", "topic", "partition_index", "partition", "error_code")
    return repr([getattr(named, field) for field in fields if hasattr(named, field)])


def _comparable(items: list[object]) -> list[object]:
    """Properties by name, for their order means nothing, and without the one that must differ.

    Kafka keeps min.insync.replicas as a dynamic default of the cluster, for the sake of eligible
    leader replicas (KIP-966), which we do not have.
    """
    properties = [
        item
        for item in items
        if isinstance(item, DescribeConfigsResourceResult | CreatableTopicConfigs)
    ]
    if items and isinstance(items[0], IN_NO_ORDER):
        return sorted(items, key=_name)
    if not properties:
        return items
    named = {each.name: each for each in properties if each.name != "min.insync.replicas"}
    return [named[name] for name in sorted(named)]


def differences(kafka: Plain, ours: Plain, path: str = "") -> list[str]:
    """Where two plain messages differ, one line each."""
    if isinstance(kafka, dict) and isinstance(ours, dict):
        return [
            line
            for name in {**kafka, **ours}
            for line in differences(kafka.get(name), ours.get(name), f"{path}.{name}")
        ]
    if isinstance(kafka, list) and isinstance(ours, list) and len(kafka) == len(ours):
        pairs = enumerate(zip(kafka, ours, strict=True))
        return [line for n, (a, b) in pairs for line in differences(a, b, f"{path}[{n}]")]
    if isinstance(kafka, bytes) and isinstance(ours, bytes) and kafka != ours:
        return [f"{path}: Kafka {len(kafka)} bytes, ours {len(ours)}"]
    return [] if kafka == ours else [f"{path}: Kafka {kafka!r:.300}, ours {ours!r:.300}"]


IN_NO_ORDER = (
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DeletableTopicResult,
    DescribeUserScramCredentialsResult,
    ListOffsetsTopicResponse,
    ListOffsetsPartitionResponse,
    OffsetForLeaderTopicResult,
    EpochEndOffset,
    ReplicaElectionResult,
)
"""What Kafka answers in the order of a hash table."""


class SideBySide:
    """One connection to each of the two."""

    def __init__(self, kafka_port: int, our_port: int) -> None:
        self.kafka = RawClient(kafka_port)
        self.ours = RawClient(our_port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kafka.socket.close()
        self.ours.socket.close()

    def ask(self, request: Message, version: int) -> tuple[Message, Message]:
        """The answers of Kafka and of ours to the same request."""
        return tuple(  # type: ignore[return-value]  # two of them
            client.receive(client.send(request, version)) for client in (self.kafka, self.ours)
        )

    def ask_each(
        self, request: Callable[[RawClient], Message], version: int
    ) -> tuple[Message, Message]:
        """The same with requests that carry ids of their own cluster."""
        return tuple(  # type: ignore[return-value]  # two of them
            client.receive(client.send(request(client), version))
            for client in (self.kafka, self.ours)
        )

    def same(
        self, request: Message, version: int, *, ignoring: frozenset[str] = frozenset()
    ) -> Plain:
        """Assert that both answer the same; what they answer."""
        return self.same_of(*self.ask(request, version), ignoring=ignoring)

    def same_of(
        self, kafka: Message, ours: Message, *, ignoring: frozenset[str] = frozenset()
    ) -> Plain:
        """Assert that two answers are the same; what they say."""
        expected = plain(kafka, OUR_OWN | ignoring)
        found = differences(expected, plain(ours, OUR_OWN | ignoring))
        assert not found, "Kafka's answer and ours differ:\n" + "\n".join(found)
        return expected


@contextmanager
def both_brokers(
    directory: Path, stated: Mapping[str, str] | None = None
) -> Generator[tuple[int, int], None, None]:
    """Apache Kafka and ours, both empty and with what is stated; their ports."""
    settings = {
        "auto.create.topics.enable": "false",
        "node.id": "1",
        # The records are of 2023, and retention must not take them.
        "log.retention.ms": "-1",
        **(stated or {}),
    }
    untiered = {**settings, "remote.log.storage.system.enable": "false"}
    for name in ("kafka", "ours"):
        (directory / name).mkdir()
    kafka = kafka_node(directory / "kafka", properties=settings)
    with kafka, BrokerProcess.on(directory / "ours", untiered) as ours:
        yield kafka.port, ours.port


def at(value: Plain, *path: str | int) -> Plain:
    """The value at a path into a plain message."""
    for step in path:
        if isinstance(step, int):
            assert isinstance(value, list)
            value = value[step]
        else:
            assert isinstance(value, Mapping)
            value = value[step]
    return value
