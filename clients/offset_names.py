"""The negative timestamps that stand for named offsets in ListOffsets."""

LATEST_TIMESTAMP = -1
"""The end offset of the part of the log that is visible to the reader."""
EARLIEST_TIMESTAMP = -2
"""The log start offset, whether local or remote."""
MAX_TIMESTAMP = -3
"""The offset of the record with the greatest timestamp (KIP-734)."""
EARLIEST_LOCAL_TIMESTAMP = -4
"""The first offset on the leader's disk (KIP-405)."""
LATEST_TIERED_TIMESTAMP = -5
"""The last offset in the remote tier (KIP-1005)."""
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6
"""The first offset that is not in the remote tier yet (KIP-1023)."""
