"""A snapshot that a follower fetches from the leader, chunk by chunk (KIP-630)."""

from dataclasses import dataclass

from ...storage.remote.remote_lineage import OffsetAndEpoch


@dataclass(slots=True)
class SnapshotDownload:
    """The snapshot, and how many bytes of it have been fetched."""

    snapshot_id: OffsetAndEpoch
    position: int = 0
