"""All entries, arranged so that those that bear on one resource are at hand.

    literal    by type and name       one look-up for the name, one for the wildcard
    prefixed   by type and prefix     one look-up for each length that a prefix of the type has
    by type    and principal          for the question about any resource of a type

No question looks at all entries. Kafka walks down a sorted set to all prefixes of a name instead
(`StandardAuthorizerData.checkSection`); prefixes have few different lengths, so that this is less.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ...clients.kafka_uuid import Uuid
from .acl import Acl
from .authorizer import (
    WILDCARD,
    AclOperation,
    AclPermission,
    PatternType,
    Resource,
    ResourceType,
)
from .host_text import host_text


class Rule(NamedTuple):
    """What an entry says, without its principal and its resource."""

    host: str
    operation: AclOperation
    denies: bool


Rules = Mapping[str, Mapping[Uuid, Rule]]
"""The rules of one pattern: by principal, then by the entry's id."""

_Pattern = dict[str, dict[Uuid, Rule]]

NOBODY: Mapping[Uuid, Rule] = MappingProxyType({})


class AclIndex:
    """The entries of a cluster."""

    def __init__(self) -> None:
        self._acls: dict[Uuid, Acl] = {}
        self._literal: dict[ResourceType, dict[str, _Pattern]] = {}
        self._prefixed: dict[ResourceType, dict[str, _Pattern]] = {}
        self._lengths: dict[ResourceType, Counter[int]] = {}
        self._of_type: dict[tuple[ResourceType, str], dict[Uuid, Acl]] = {}

    def __len__(self) -> int:
        return len(self._acls)

    def entries_of(self, kind: ResourceType, principal: str) -> Iterator[Acl]:
        """The entries for one principal, on resources of one type."""
        return iter(self._of_type.get((kind, principal), {}).values())

    def update(self, changes: Mapping[Uuid, Acl | None]) -> None:
        """Add entries, and remove those that have become None."""
        for entry_id, acl in changes.items():
            before = self._acls.pop(entry_id, None)
            if before is not None:
                self._remove(entry_id, before)
            if acl is not None:
                self._acls[entry_id] = acl
                self._add(entry_id, acl)

    def covering(self, resource: Resource) -> Iterator[Rules]:
        """The rules of each pattern that covers the resource."""
        kind, name = resource
        literal = self._literal.get(kind)
        if literal is not None:
            if name in literal:
                yield literal[name]
            if WILDCARD in literal and name != WILDCARD:
                yield literal[WILDCARD]
        prefixed = self._prefixed.get(kind)
        if prefixed:
            size = len(name)
            for length in self._lengths[kind]:
                if length <= size and (prefix := name[:length]) in prefixed:
                    yield prefixed[prefix]

    def _add(self, entry_id: Uuid, acl: Acl) -> None:
        patterns = self._patterns(acl)
        if acl.name not in patterns:
            patterns[acl.name] = {}
            if _is_prefix(acl):
                self._lengths.setdefault(acl.resource_type, Counter())[len(acl.name)] += 1
        rule = Rule(host_text(acl.host), acl.operation, acl.permission is not AclPermission.ALLOW)
        patterns[acl.name].setdefault(acl.principal, {})[entry_id] = rule
        self._of_type.setdefault((acl.resource_type, acl.principal), {})[entry_id] = acl

    def _remove(self, entry_id: Uuid, acl: Acl) -> None:
        patterns = self._patterns(acl)
        pattern = patterns[acl.name]
        del pattern[acl.principal][entry_id]
        if not pattern[acl.principal]:
            del pattern[acl.principal]
        if not pattern:
            del patterns[acl.name]
            if _is_prefix(acl):
                lengths = self._lengths[acl.resource_type]
                lengths[len(acl.name)] -= 1
                if not lengths[len(acl.name)]:
                    del lengths[len(acl.name)]
        of_type = self._of_type[acl.resource_type, acl.principal]
        del of_type[entry_id]
        if not of_type:
            del self._of_type[acl.resource_type, acl.principal]

    def _patterns(self, acl: Acl) -> dict[str, _Pattern]:
        by_type = self._prefixed if _is_prefix(acl) else self._literal
        return by_type.setdefault(acl.resource_type, {})


def _is_prefix(acl: Acl) -> bool:
    return acl.pattern is PatternType.PREFIXED
