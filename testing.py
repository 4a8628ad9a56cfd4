"""`tierlog.testing`: a cluster of real broker processes, for the tests of users.

    from tierlog.testing import Cluster

    with Cluster(brokers=3) as cluster:
        ...  # cluster.bootstrap_servers, cluster.kill(2), cluster.start(2), cluster.pause(1)

`AsyncCluster` has the same acts as coroutines.
"""

from .broker.local_cluster.async_cluster import AsyncCluster
from .broker.local_cluster.cluster_options import ClusterError
from .broker.local_cluster.cluster_status import ClusterStatus, NodeStatus
from .broker.local_cluster.sync_cluster import Cluster

__all__ = ["AsyncCluster", "Cluster", "ClusterError", "ClusterStatus", "NodeStatus"]
