"""Access control entries as records of the metadata log, and back."""

from ...clients.kafka_uuid import Uuid
from ..authorizer.acl import Acl
from ..authorizer.authorizer import AclOperation, AclPermission, PatternType, ResourceType
from .metadata_records import AccessControlEntryRecord


def acl_of(record: AccessControlEntryRecord) -> Acl:
    """The entry of a record."""
    return Acl(
        ResourceType(record.resource_type),
        record.resource_name,
        PatternType(record.pattern_type),
        record.principal,
        record.host,
        AclOperation(record.operation),
        AclPermission(record.permission_type),
    )


def acl_record(entry_id: Uuid, acl: Acl) -> AccessControlEntryRecord:
    """The record of an entry."""
    return AccessControlEntryRecord(
        id=entry_id,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
