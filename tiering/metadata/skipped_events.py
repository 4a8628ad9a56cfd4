"""Records of the metadata topic that are stepped over: `clients/skipped_records.py` says how."""

from ...clients.skipped_records import SkippedRecords
from .metadata_events import METADATA_TOPIC


class SkippedEvents(SkippedRecords):
    """What was stepped over by one reader of the metadata topic."""

    def __init__(self) -> None:
        super().__init__(METADATA_TOPIC, "Whatever it told of a remote segment is not known here")
