"""`tierlog serve` with what its controller can do before its brokers can.

Partitions have several replicas, and the cluster has eligible leader replicas (KIP-966): all that
the controller decides about them can then be compared with Kafka's.
"""

import sys
from dataclasses import replace
from types import MappingProxyType

from tierlog.replication.metadata import metadata_records

if __name__ == "__main__":
    # Before any other module has read it.
    metadata_records.SUPPORTED_FEATURES = MappingProxyType(
        {**metadata_records.SUPPORTED_FEATURES, "eligible.leader.replicas.version": (0, 1)}
    )

from tierlog.broker.config import settings
from tierlog.broker.config.config import BrokerConfig
from tierlog.replication.controller.controller_config import REPLICAS_MAX, ControllerConfig
from tierlog.storage.config import LogConfig

_controller_config = settings.controller_config


def _with_replicas(config: BrokerConfig, log_config: LogConfig, max_open: int) -> ControllerConfig:
    return replace(_controller_config(config, log_config, max_open), replicas_max=REPLICAS_MAX)


if __name__ == "__main__":
    settings.controller_config = _with_replicas
    from tierlog.broker.__main__ import main

    sys.exit(main(sys.argv[1:]))
