"""`tierlog.testing`: real brokers for the tests of users, alone or as a cluster of processes.

    from tierlog.testing import Broker, Cluster

    with Broker() as broker:
        ...  # broker.bootstrap_servers, broker.create_topic("orders"), broker.restart()

    with Cluster(brokers=3) as cluster:
        ...  # cluster.bootstrap_servers, cluster.kill(2), cluster.start(2), cluster.pause(1)

`AsyncCluster` has the same acts as coroutines; `Broker` can be used with `async with` as well.
"""

from .clients.supported_system import refusal

if (_sentence := refusal()) is not None:
    raise ImportError(_sentence)

from .broker.local_cluster.async_cluster import AsyncCluster
from .broker.local_cluster.cluster_options import ClusterError
from .broker.local_cluster.cluster_status import ClusterStatus, NodeStatus
from .broker.local_cluster.sync_cluster import Cluster
from .broker.testing.broker import Broker
from .broker.testing.broker_error import BrokerError, OnlyTierlogError
from .broker.testing.faults.fault import Fault
from .broker.testing.faults.request_faults import ReceivedRequest
from .broker.testing.whole_broker import load_if_modules_are_dropped
from .clients.consumer.completed_fetch import ConsumerRecord

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
