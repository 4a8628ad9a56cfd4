"""Which right a configuration needs, and the error without it (`ConfigHelper`)."""

from ...clients.errors import ErrorCode, KafkaError
from ...replication.authorizer.authorizer import AclOperation
from ...replication.metadata.cluster_image import ConfigResourceType
from ...security.access import GROUP, TOPIC, Access

_TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."
_GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."
_CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."


def denial(
    access: Access, operation: AclOperation, resource_type: int, name: str
) -> KafkaError | None:
    """Why the client may not do this to the configuration of a resource; None if it may.

    Brokers, loggers and client metrics are the cluster's.
    """
    if resource_type == ConfigResourceType.TOPIC:
        allowed, error = access.allows(operation, TOPIC, name), _TOPIC_DENIED
    elif resource_type == ConfigResourceType.GROUP:
        allowed, error = access.allows(operation, GROUP, name), _GROUP_DENIED
    else:
        allowed, error = access.allows_cluster(operation), _CLUSTER_DENIED
    return None if allowed else KafkaError(*error)
