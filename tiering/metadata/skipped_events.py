"""Records of the metadata topic that are skipped; see `clients/skipped_records.py`."""

from ...clients.skipped_records import SkippedRecords
from .metadata_events import METADATA_TOPIC


class SkippedEvents(SkippedRecords):
    """The records that one reader of the metadata topic skipped."""

    def __init__(self) -> None:
        super().__init__(METADATA_TOPIC, "What it says about a remote segment is lost")
