"""What a request's client may do: the authorizer's decision, and one line of audit for a denial.

Handlers call `denies` for one resource and `access_of` for lists. Without an authorizer everything
is allowed, which costs one attribute test. The operations that imply others, and which entries
cover a name, are the authorizer's matter; which operation a request needs is the handler's
(`api_checks.py` names every API).

The audit has Kafka's message at Kafka's logger, `kafka.authorizer.logger`: denials at INFO,
permissions at DEBUG (`StandardAuthorizerData.logAuditMessage`). Questions whose denial refuses
nothing, such as the filter of a list, leave no line.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from ..clients.protocol.api import APIS
from ..replication.authorizer.authorizer import (
    CLUSTER,
    AclOperation,
    Authorizer,
    Resource,
    ResourceType,
)
from .audit import AUDIT, escape

READ = AclOperation.READ
WRITE = AclOperation.WRITE
CREATE = AclOperation.CREATE
DELETE = AclOperation.DELETE
ALTER = AclOperation.ALTER
DESCRIBE = AclOperation.DESCRIBE
CLUSTER_ACTION = AclOperation.CLUSTER_ACTION
DESCRIBE_CONFIGS = AclOperation.DESCRIBE_CONFIGS
ALTER_CONFIGS = AclOperation.ALTER_CONFIGS
IDEMPOTENT_WRITE = AclOperation.IDEMPOTENT_WRITE

TOPIC = ResourceType.TOPIC
GROUP = ResourceType.GROUP
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID

_KINDS = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}
"""Kafka's names of the resource types (`SecurityUtils.resourceTypeName`)."""


class Guarded(Protocol):
    """The node that serves a request."""

    @property
    def authorizer(self) -> Authorizer | None:
        """None if none is configured: everything is allowed."""
        ...


class Origin(Protocol):
    """Who sends a request, and which (`RequestContext`)."""

    @property
    def principal(self) -> str:
        """The client's principal; for a forwarded request, that of the first client."""
        ...

    @property
    def client_host(self) -> str:
        """The text of the client's IP address; for a forwarded request, of the first client's."""
        ...

    @property
    def api_key(self) -> int:
        """The API of the request."""
        ...

    @property
    def api_version(self) -> int:
        """The version of the request."""
        ...


class Access(NamedTuple):
    """The decisions for one request's client."""

    authorizer: Authorizer
    principal: str
    host: str
    api_key: int

    def allows(
        self, operation: AclOperation, kind: ResourceType, name: str, *, audited: bool = True
    ) -> bool:
        """Whether the client may do this; not `audited` if a denial refuses nothing."""
        return self._allows(operation, Resource(kind, name), audited)

    def allows_cluster(self, operation: AclOperation, *, audited: bool = True) -> bool:
        """Whether the client may do this to the cluster."""
        return self._allows(operation, CLUSTER, audited)

    def allows_any(self, operation: AclOperation, kind: ResourceType) -> bool:
        """Whether the client may do this to some resource of the type (KIP-679)."""
        return self.authorizer.authorize_any(self.principal, self.host, operation, kind)

    def allowed(
        self,
        operation: AclOperation,
        kind: ResourceType,
        names: Iterable[str],
        *,
        audited: bool = True,
    ) -> set[str]:
        """Those of the names that the client may do this to; each is decided once."""
        return {
            name
            for name in dict.fromkeys(names)
            if self._allows(operation, Resource(kind, name), audited)
        }

    def operations(self, kind: ResourceType, name: str, supported: int) -> int:
        """Those of the supported operations that the client may do, as a bit field (KIP-430)."""
        resource = Resource(kind, name)
        return sum(
            1 << operation
            for operation in AclOperation
            if supported >> operation & 1 and self._allows(operation, resource, audited=False)
        )

    def _allows(self, operation: AclOperation, resource: Resource, audited: bool) -> bool:
        allowed = self.authorizer.authorize(self.principal, self.host, operation, resource)
        if audited and AUDIT.wants(allowed):
            self._audit(allowed, operation, resource)
        return allowed

    def _audit(self, allowed: bool, operation: AclOperation, resource: Resource) -> None:
        api = APIS.get(self.api_key)
        AUDIT.write(
            allowed,
            f"Principal = {escape(self.principal)} is {'Allowed' if allowed else 'Denied'} "
            f"operation = {operation.name} from host = {escape(self.host)} on resource = "
            f"{_KINDS.get(resource.type, 'Unknown')}:LITERAL:{escape(resource.name)} for request = "
            f"{self.api_key if api is None else api.name}",
            self.principal,
        )


def access_of(node: Guarded, origin: Origin) -> Access | None:
    """The decisions for a request's client; None if everything is allowed."""
    if node.authorizer is None:
        return None
    return Access(node.authorizer, origin.principal, origin.client_host, origin.api_key)


def denies(
    node: Guarded, origin: Origin, operation: AclOperation, kind: ResourceType, name: str
) -> bool:
    """Whether the client may not do this to that resource."""
    access = access_of(node, origin)
    return access is not None and not access.allows(operation, kind, name)
