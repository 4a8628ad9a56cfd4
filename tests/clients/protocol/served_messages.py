"""Every message and version that we have, and random ones of each, derived from the schemas."""

import random
from collections.abc import Callable
from typing import TypeVar

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.api import APIS, request_class, response_class
from tierlog.clients.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from tierlog.clients.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from tierlog.clients.protocol.messages.default_principal_data import DefaultPrincipalData
from tierlog.clients.protocol.messages.leader_change_message import LeaderChangeMessage
from tierlog.clients.protocol.messages.quorum_records import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from tierlog.clients.protocol.schema import FieldType, Message, Struct, fields_of, version_range

_VALUES: list[type[Message]] = [
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
    DefaultPrincipalData,
    LeaderChangeMessage,
    KRaftVersionRecord,
    VotersRecord,
    SnapshotHeaderRecord,
    SnapshotFooterRecord,
]

M = TypeVar("M", bound=Struct)

MESSAGES_PER_VERSION = 60
"""Enough for every field to be null, empty and full at least once; a test sees to it."""

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.-_ äß€漢字😀\x00"


def message_classes() -> list[type[Message]]:
    """All requests and responses, the values inside JoinGroup, SyncGroup and Envelope, and those
    of the quorum's control records."""
    of_apis = [make(key) for key in APIS for make in (request_class, response_class)]
    return [*of_apis, *_VALUES]


def versions_of(classes: list[type[Message]]) -> list[tuple[type[Message], int]]:
    """Each of the classes in each of its versions."""
    return [
        (cls, version)
        for cls in classes
        for version in range(
            version_range(cls.versions).lowest, version_range(cls.versions).highest + 1
        )
    ]


def message_versions() -> list[tuple[type[Message], int]]:
    """Each message in each of its versions."""
    return versions_of(message_classes())


def identify(value: object) -> str:
    """A test id for one of the parameters."""
    return value.__name__ if isinstance(value, type) else f"v{value}"


class RandomMessages:
    """Makes messages that exercise a version: nulls, empty and long values, tags set and unset."""

    def __init__(self, seed: object) -> None:
        self._random = random.Random(repr(seed))
        self._scalars: dict[str, Callable[[], object]] = {
            "bool": lambda: self._random.random() < 0.5,
            "string": self._string,
            "bytes": self._bytes,
            "records": self._bytes,
            "uuid": lambda: Uuid(self._random.randbytes(16)),
            "uint16": lambda: self._random.choice((0, 1, 0x7FFF, 0x8000, 0xFFFF)),
            "uint32": lambda: self._random.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)),
            "float64": self._random.random,
        }

    def message(self, cls: type[M], version: int) -> M:
        """A message with every field of the version set at random; the others keep defaults."""
        message = cls()
        for spec in fields_of(cls):
            if not spec.versions.includes(version):
                continue
            if spec.tag is not None and self._random.random() < 0.4:
                continue
            if spec.nullable.includes(version) and self._random.random() < 0.3:
                setattr(message, spec.name, None)
            elif spec.name.endswith("error_code"):
                setattr(message, spec.name, self._random.randint(-1, 119))
            elif spec.name.endswith(("_time_ms", "_lifetime_ms")) and spec.type.kind == "int64":
                # kio makes datetimes of these, which end in the year 9999.
                setattr(message, spec.name, self._random.randint(0, 1 << 41))
            else:
                setattr(message, spec.name, self._value(spec.type, version))
        return message

    def _value(self, field_type: FieldType, version: int) -> object:
        if field_type.kind in BITS:
            return self._integer(BITS[field_type.kind])
        if field_type.struct is not None:
            return self.message(field_type.struct, version)
        if field_type.element is not None:
            element = field_type.element
            return [self._value(element, version) for _ in range(self._count(element))]
        return self._scalars[field_type.kind]()

    def _integer(self, bits: int) -> int:
        # Small, negative, extreme: each shows other mistakes.
        span = self._random.choice((3, bits // 2, bits - 1))
        return self._random.randint(-(1 << span), (1 << span) - 1)

    def _count(self, element: FieldType) -> int:
        # 127 elements are the first count that needs two bytes as a compact length.
        if element.struct is None and self._random.random() < 0.1:
            return self._random.choice((126, 127, 128))
        return self._random.choice((0, 1, 1, 2, 3))

    def _string(self) -> str:
        return "".join(self._random.choices(LETTERS, k=self._length()))

    def _bytes(self) -> bytes:
        return self._random.randbytes(self._length())

    def _length(self) -> int:
        return self._random.choice((0, 1, 7, 40, 126, 127, 128, 300))


def random_message(cls: type[Message], version: int, seed: object) -> Message:
    """One message, the same for the same seed."""
    return RandomMessages((cls.__name__, version, seed)).message(cls, version)
