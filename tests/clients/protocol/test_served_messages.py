"""The random messages that codecs are compared with reach everything a version can say."""

from typing import cast

import pytest

from tierlog.clients.protocol.schema import FieldSpec, Message, Struct, fields_of

from .served_messages import MESSAGES_PER_VERSION, identify, message_versions, random_message


class Reached:
    """What the fields of one message in one version have been seen to hold."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._seen: dict[str, set[str]] = {}
        self._specs: dict[str, FieldSpec] = {}

    def look_at(self, struct: Struct, cls: type[Struct], path: str) -> None:
        for spec in fields_of(cls):
            if spec.versions.includes(self._version):
                name = f"{path}.{spec.name}"
                self._specs[name] = spec
                self._seen.setdefault(name, set()).update(self._kinds(spec, struct, name))

    def _kinds(self, spec: FieldSpec, struct: Struct, name: str) -> set[str]:
        value: object = getattr(struct, spec.name)
        is_default = value == ([] if spec.default == () else spec.default)
        kinds = {"unset" if is_default else "set"} if spec.tag is not None else set[str]()
        if value is None:
            return kinds | {"null"}
        element = spec.type.element
        if isinstance(value, list) and element is not None and element.struct is not None:
            for item in cast("list[Struct]", value):
                self.look_at(item, element.struct, name)
        if isinstance(value, Struct) and spec.type.struct is not None:
            self.look_at(value, spec.type.struct, name)
        if isinstance(value, list | str | bytes):
            kinds.add("some" if value else "empty")
        return kinds

    def missed(self) -> dict[str, set[str]]:
        missed = {name: self._wanted(spec) - self._seen[name] for name, spec in self._specs.items()}
        return {name: kinds for name, kinds in missed.items() if kinds}

    def _wanted(self, spec: FieldSpec) -> set[str]:
        wanted = {"null"} if spec.nullable.includes(self._version) else set[str]()
        if spec.type.element is not None or spec.type.kind in {"string", "bytes", "records"}:
            wanted |= {"empty", "some"}
        return wanted | ({"set", "unset"} if spec.tag is not None else set())


@pytest.mark.parametrize(("cls", "version"), message_versions(), ids=identify)
def test_nulls_empties_and_tags_are_all_among_them(cls: type[Message], version: int) -> None:
    reached = Reached(version)
    for seed in range(MESSAGES_PER_VERSION):
        reached.look_at(random_message(cls, version, seed), cls, cls.__name__)
    assert not reached.missed()
