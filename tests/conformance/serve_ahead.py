"""`tierlog serve` with what its controller can do before its brokers can.

The cluster has eligible leader replicas (KIP-966): all that the controller decides about them can
then be compared with Kafka's.
"""

import sys
from types import MappingProxyType

from tierlog.replication.metadata import metadata_records

if __name__ == "__main__":
    # Before any other module has read it.
    metadata_records.SUPPORTED_FEATURES = MappingProxyType(
        {**metadata_records.SUPPORTED_FEATURES, "eligible.leader.replicas.version": (0, 1)}
    )

    from tierlog.broker.__main__ import main

    sys.exit(main(sys.argv[1:]))
