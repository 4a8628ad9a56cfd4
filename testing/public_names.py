"""What `tierlog.testing` has, loaded when the first of its names is used."""

from ..clients.consumer.completed_fetch import ConsumerRecord
from ..clients.runtime.supported_system import refusal
from .whole_broker import load_if_modules_are_dropped

if (_message := refusal()) is not None:
    raise ImportError(_message)

from .broker import Broker
from .broker_error import BrokerError, OnlyTierlogError
from .faults.fault import Fault
from .faults.request_faults import ReceivedRequest
from .local_cluster.async_cluster import AsyncCluster
from .local_cluster.cluster_options import ClusterError
from .local_cluster.cluster_status import ClusterStatus, NodeStatus
from .local_cluster.sync_cluster import Cluster

# Now, before a test's file system stands.
load_if_modules_are_dropped()

__all__ = [
    "AsyncCluster",
    "Broker",
    "BrokerError",
    "Cluster",
    "ClusterError",
    "ClusterStatus",
    "ConsumerRecord",
    "Fault",
    "NodeStatus",
    "OnlyTierlogError",
    "ReceivedRequest",
]
