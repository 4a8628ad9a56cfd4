"""`tierlog.testing`: real brokers for the tests of users, alone or as a cluster of processes.

    from tierlog.testing import Broker, Cluster

    with Broker() as broker:
        ...  # broker.bootstrap_servers, broker.create_topic("orders"), broker.restart()

    with Cluster(brokers=3) as cluster:
        ...  # cluster.bootstrap_servers, cluster.kill(2), cluster.start(2), cluster.pause(1)

`AsyncCluster` has the same acts as coroutines; `Broker` can be used with `async with` as well.
"""

TYPE_CHECKING = False
"""As in `typing`: every start of pytest imports this module, and few of them a broker."""

if TYPE_CHECKING:
    from typing import Any

    from ..clients.consumer.completed_fetch import ConsumerRecord
    from .broker import Broker
    from .broker_error import BrokerError, OnlyTierlogError
    from .broker_warning import BrokerWarning as BrokerWarning  # public, but not in `__all__`
    from .faults.fault import Fault
    from .faults.request_faults import ReceivedRequest
    from .local_cluster.async_cluster import AsyncCluster
    from .local_cluster.cluster_options import ClusterError
    from .local_cluster.cluster_status import ClusterStatus, NodeStatus
    from .local_cluster.sync_cluster import Cluster

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


def __getattr__(name: str) -> "Any":  # noqa: ANN401 (a module has names of any type)
    """Load the public names. Raises AttributeError for others, ImportError on an unfit system."""
    if name == "BrokerWarning":
        # It needs pytest, and no broker: pytest looks it up as it starts, for `filterwarnings`.
        from .broker_warning import BrokerWarning

        return BrokerWarning
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import public_names

    return getattr(public_names, name)


def __dir__() -> list[str]:
    """All names, those that are not loaded yet included: shells complete by them."""
    return sorted({*globals(), *__all__})
