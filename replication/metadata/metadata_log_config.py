"""The settings of the metadata log (Kafka's `MetadataLogConfig`)."""

from typing import NamedTuple


class MetadataLogConfig(NamedTuple):
    """When the metadata log gets segments and snapshots, and what is kept of them."""

    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    max_record_bytes_between_snapshots: int = 20_971_520
    max_snapshot_interval_ms: int = 3_600_000
    """0 for snapshots by size alone."""
    retention_bytes: int = 104_857_600
    """For the log and the snapshots together; negative for no limit."""
    retention_ms: int = 604_800_000
    """Negative for no limit."""
