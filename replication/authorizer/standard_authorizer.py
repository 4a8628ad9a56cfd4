"""The authorizer that decides by the entries of the metadata log (Kafka's `StandardAuthorizer`).

Super users may do everything. For all others the entries decide; where none covers a resource,
`allow.everyone.if.no.acl.found` does.

Who holds it gives it the entries of each new image (`update`), and says once that it is up to date:
until then, only super users may do anything.
"""

from collections.abc import Mapping

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid
from .acl import Acl
from .acl_index import AclIndex
from .authorizer import AclOperation, Resource, ResourceType
from .decision import Verdict, allows_any, decide

_ANY_NAME = "hardcode"
"""The name that Kafka asks about first where any resource of a type is meant."""


def super_users(text: str) -> frozenset[str]:
    """The principals in a value of `super.users`, separated by semicolons.

    Raises KafkaError(INVALID_CONFIG) for one without a type, like `alice` instead of `User:alice`.
    """
    principals = {part.strip() for part in text.split(";")} - {""}
    for principal in sorted(principals):
        if ":" not in principal:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"super.users names {principal}, which has no type: write User:{principal}, and "
                "separate several principals by semicolons.",
            )
    return frozenset(principals)


class StandardAuthorizer:
    """Decides by super users, entries, and what holds where there are none."""

    def __init__(
        self, superior: frozenset[str] = frozenset(), allows_without_entries: bool = False
    ) -> None:
        self._super_users = superior
        self._allows_without_entries = allows_without_entries
        self._index = AclIndex()
        self._is_loaded = False
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """Grows whenever an answer may have changed."""
        return self._epoch

    def update(self, changes: Mapping[Uuid, Acl | None]) -> None:
        """Follow a new image: entries by id, None for one that was removed."""
        if changes:
            self._index.update(changes)
            self._epoch += 1

    def complete_load(self) -> None:
        """The entries are those of the cluster: from now on they decide."""
        if not self._is_loaded:
            self._is_loaded = True
            self._epoch += 1

    def authorize(
        self, principal: str, host: str, operation: AclOperation, resource: Resource
    ) -> bool:
        """Whether a principal, connected from this address, may do this to this resource."""
        if principal in self._super_users:
            return True
        if not self._is_loaded:
            return False
        verdict = decide(self._index, principal, host, operation, resource)
        if verdict is Verdict.UNCOVERED:
            return self._allows_without_entries
        return verdict is Verdict.ALLOWED

    def authorize_any(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether a principal may do this to at least one resource of this type."""
        probe = Resource(resource_type, _ANY_NAME)
        if self.authorize(principal, host, operation, probe):
            return True
        return self._is_loaded and allows_any(
            self._index, principal, host, operation, resource_type
        )
