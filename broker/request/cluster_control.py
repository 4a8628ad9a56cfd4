"""The part of a process that answers brokers as the active controller."""

from typing import TYPE_CHECKING

from ...clients.errors import ErrorCode, KafkaError
from .context import NodeContext

if TYPE_CHECKING:
    from ...replication.control.cluster_control import ClusterControl


def cluster_control(node: NodeContext) -> "ClusterControl":
    """What decides for the brokers of the cluster, active or not.

    Raises KafkaError(NOT_CONTROLLER) in a process without a controller for other brokers.
    """
    control = None if node.member is None else node.member.cluster_control
    if control is None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node has no controller for other brokers.")
    return control
