"""The times below zero by which ListOffsets asks for offsets that have a name."""

LATEST_TIMESTAMP = -1
"""The end that the reader may see."""
EARLIEST_TIMESTAMP = -2
"""The log start offset, wherever its record lies."""
MAX_TIMESTAMP = -3
"""The record with the greatest timestamp (KIP-734)."""
EARLIEST_LOCAL_TIMESTAMP = -4
"""The first offset on the leader's disk (KIP-405)."""
LATEST_TIERED_TIMESTAMP = -5
"""The last offset in the remote tier (KIP-1005)."""
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6
"""The first offset that is not in the remote tier yet (KIP-1023)."""
