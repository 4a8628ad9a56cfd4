"""Two brokers, Apache Kafka and ours, asked the same and compared answer by answer.

What legitimately differs between two clusters is taken out before comparing: ids that are drawn at
random, ports, times, and how far the metadata log has come.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.protocol.schema import Message, Struct

from ..broker_process import RawClient

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
        return [plain(item, ignored) for item in value]
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, bytes) and len(value) == 16:
        return "no id" if value == ZERO_UUID else "an id"
    assert value is None or isinstance(value, bool | int | float | str | bytes)
    return value


class SideBySide:
    """One connection to each of the two."""

    def __init__(self, kafka_port: int, our_port: int) -> None:
        self.kafka = RawClient(kafka_port)
        self.ours = RawClient(our_port)

    def close(self) -> None:
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
        assert plain(ours, OUR_OWN | ignoring) == expected
        return expected


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
