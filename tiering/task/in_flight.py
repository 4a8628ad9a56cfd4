"""How much of each segment that is being copied was handed to the store.

For people who watch: an upload of a gigabyte takes a while. Reads that a store repeats count twice,
so a share never falls, and ends at 1.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from ...clients.kafka_uuid import Uuid
from ..remote_storage import LogSegmentData, SegmentBytes


class CountedBytes:
    """The log of a segment, which notes how many of its bytes were read."""

    __slots__ = ("_data", "_sizes")

    def __init__(self, data: SegmentBytes, sizes: list[int]) -> None:
        self._data = data
        # A list, because stores read in several threads, and `append` is atomic.
        self._sizes = sizes

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self._data.nbytes

    def slice(self, offset: int, size: int) -> "CountedBytes":
        """A part, which counts towards the whole."""
        return CountedBytes(self._data.slice(offset, size), self._sizes)

    def read(self) -> bytes:
        """The bytes."""
        content = self._data.read()
        self._sizes.append(len(content))
        return content


class InFlight:
    """The uploads under way."""

    def __init__(self) -> None:
        self._uploads: dict[Uuid, tuple[int, list[int]]] = {}

    @contextmanager
    def uploading(self, segment_id: Uuid, data: LogSegmentData) -> Generator[LogSegmentData]:
        """Count what is read of `data` during the upload: gives the data to be uploaded."""
        sizes: list[int] = []
        self._uploads[segment_id] = data.log_segment.nbytes, sizes
        try:
            yield replace(data, log_segment=CountedBytes(data.log_segment, sizes))
        finally:
            del self._uploads[segment_id]

    def share(self, segment_id: Uuid) -> float | None:
        """The share of the bytes that were read, from 0 to 1; None if no upload is under way."""
        upload = self._uploads.get(segment_id)
        if upload is None:
            return None
        nbytes, sizes = upload
        return min(1.0, sum(sizes) / nbytes) if nbytes else 1.0
