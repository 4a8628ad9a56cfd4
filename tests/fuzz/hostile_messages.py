"""Requests that follow their schema and mean harm: every field has values that nobody sends.

The values come from the declarations of the messages, so that a new field or API is covered as soon
as it is declared. Most fields hold something meaningful, by their names, or no request would get
past the first check; the others hold extremes.
"""

from random import Random
from typing import cast

from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.clients.protocol.schema import FieldSpec, FieldType, Message, Struct, is_flexible
from tierlog.clients.protocol.source import present_fields, tagged_fields

_INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED_BITS = {"uint16": 16, "uint32": 32}

STRINGS = (
    "",
    "a",
    "..",
    "../../etc/passwd",
    "line\nfeed\rand\x1b[31mcolour",
    "nul\0byte",
    "%s{}{0}$(x)",
    "\N{SNOWMAN}" * 10_922,
    "x" * 32_767,
    "x" * 250,
    "\U0001f4a9",
    "__consumer_offsets",
    "__transaction_state",
    "__remote_log_metadata",
    "__cluster_metadata",
    "__share_group_state",
    "-1",
    "0",
    "9" * 5_000,
    "NaN",
    "(a+)+b",
    "[",
)

_NUMBERS_BY_NAME: dict[str, tuple[int, ...]] = {
    # Whoever waits for longer is not answered within the time of a test.
    "max_wait_ms": (0, -1, 20, -(2**31)),
    "timeout_ms": (0, -1, 20, -(2**31)),
    "rebalance_timeout_ms": (-1, 0, 50),
    # Partitions cost files; how many may be made is a matter of other tests.
    "num_partitions": (-(2**31), -2, -1, 0, 1, 2),
    "count": (-(2**31), -1, 0, 1, 2),
    # Not the broker at hand.
    "broker_id": (-(2**31), -1, 1, 2**31 - 1),
}


class HostileMessages:
    """Makes messages of any class, one after the other, the same for the same seed."""

    def __init__(self, seed: str, names: dict[str, tuple[object, ...]]) -> None:
        """`names`: meaningful values by the name of the field that they fit."""
        self._random = Random(seed)
        self._names = names

    def message(self, cls: type[Message], version: int) -> Message:
        """The next one."""
        return cast("Message", self._filled(cls, version, cls))

    def _filled(self, cls: type[Struct], version: int, message: type[Message]) -> Struct:
        fields = list(present_fields(cls, version))
        if is_flexible(message, version):
            fields += [each for each in tagged_fields(cls, version) if self._random.random() < 0.3]
        values = {each.name: self._value(each, version, message) for each in fields}
        made = cls()
        for name, value in values.items():
            setattr(made, name, value)
        return made

    def _value(self, spec: FieldSpec, version: int, message: type[Message]) -> object:
        if spec.nullable.includes(version) and self._random.random() < 0.1:
            return None
        known = self._names.get(spec.name)
        if spec.type.kind != "array" and known is not None and self._random.random() < 0.7:
            return self._random.choice(known)
        return self._of_type(spec.name, spec.type, version, message)

    def _of_type(self, name: str, kind: FieldType, version: int, message: type[Message]) -> object:
        choose = self._random.choice
        if kind.kind == "array":
            assert kind.element is not None
            count = choose((0, 1, 1, 2, 3))
            elements = [self._element(name, kind.element, version, message) for _ in range(count)]
            # Whatever is named may be named twice.
            return elements + elements if self._random.random() < 0.2 else elements
        if kind.kind == "struct":
            assert kind.struct is not None
            return self._filled(kind.struct, version, message)
        if kind.kind == "string":
            return choose(STRINGS)
        if kind.kind in ("bytes", "records"):
            return choose((b"", b"\0", b"\xff" * 100, self._random.randbytes(200), b"\0" * 70_000))
        if kind.kind == "uuid":
            return choose((ZERO_UUID, Uuid(b"\xff" * 16), Uuid(b"\0" * 15 + b"\1")))
        if kind.kind == "bool":
            return choose((False, True))
        if kind.kind == "float64":
            return choose((0.0, -1.0, float("nan"), float("inf"), -float("inf"), 1e308, 5e-324))
        return self._integer(name, kind.kind)

    def _element(self, name: str, kind: FieldType, version: int, message: type[Message]) -> object:
        known = self._names.get(name)
        if kind.struct is None and known is not None and self._random.random() < 0.7:
            return self._random.choice(known)
        return self._of_type(name, kind, version, message)

    def _integer(self, name: str, kind: str) -> int:
        numbers = _NUMBERS_BY_NAME.get(name)
        if numbers is not None:
            return self._random.choice(numbers)
        if kind in _UNSIGNED_BITS:
            return self._random.choice((0, 1, (1 << _UNSIGNED_BITS[kind]) - 1))
        largest = (1 << (_INTEGER_BITS[kind] - 1)) - 1
        return self._random.choice((0, 1, -1, 2, -2, 3, 100, largest, -largest - 1, largest - 1))
