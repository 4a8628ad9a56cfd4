"""The base of the offset and time indexes: sorted fixed-size entries in a mapped file.

An index belongs to one segment and is named after the segment's base offset. While the segment is
active, the file is preallocated to `segment.index.bytes` (zeros after the last entry); closing the
segment trims the file to its entries (`trim`). The number of valid entries is kept only in memory:
after a crash, an index with trailing zeros is unreliable and is rebuilt from the log (Kafka's
`AbstractIndex`).

Files are created and mapped on first use. A broker that opens a thousand empty partitions accesses
no index files at all.
"""

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import ClassVar

from ..files import Files, IndexBuffer, MappedFile


class CorruptIndexError(Exception):
    """The index file is inconsistent, or contradicts its segment; rebuild it from the log."""


class MissingIndexError(CorruptIndexError):
    """A segment lacks an index file that it should have."""


class Index:
    """A sorted array of `entry` structs. Subclasses define the meaning of the entries.

    `max_size` is the size in bytes to which a growing index is preallocated, rounded down to whole
    entries; a closed index has the size of its entries.
    """

    entry: ClassVar[Struct]

    def __init__(self, files: Files, path: str, base_offset: int, max_size: int) -> None:
        self._files = files
        self.path = path
        self.base_offset = base_offset
        self.max_entries = max_size // self.entry.size
        self._mapped: MappedFile | None = None
        self.is_writable = False
        """Whether the file has its preallocated size, so that entries can be appended."""
        self.entries: int = 0
        """The number of valid entries. Only meaningful after `_load`."""
        self._is_loaded = False

    def _load(self) -> None:
        """Map the file and derive the number of entries from its size, on first use."""
        if self._is_loaded:
            return
        if self._files.exists(self.path) and (size := self._files.size(self.path)) > 0:
            self._mapped = self._files.map(self.path, size)
            self.entries = size // self.entry.size
        self._is_loaded = True
        self._entries_changed()

    def _buffer(self) -> IndexBuffer:
        assert self._mapped is not None
        return self._mapped.buffer

    def _places(self) -> range:
        """The positions of the valid entries in the file."""
        size = self.entry.size
        return range(0, self.entries * size, size)

    def _column(self, field: Struct) -> Callable[[int], tuple[int]]:
        """A key function for `bisect` that reads one field of the entry at a position.

        It runs no Python code. `field` is as long as an entry and unpacks to a tuple, so search
        for a tuple.
        """
        return partial(field.unpack_from, self._buffer())

    def _make_writable(self) -> MappedFile:
        """Map the file at its full preallocated size before the first store."""
        self._load()
        if self._mapped is None:
            self._mapped = self._files.map(self.path, self._max_size)
        if self._mapped.capacity < self._max_size:
            self._mapped.resize(self._max_size)
        self.is_writable = True
        return self._mapped

    @property
    def _max_size(self) -> int:
        return self.max_entries * self.entry.size

    @property
    def room(self) -> int:
        """How many more entries fit before the segment must be closed."""
        self._load()
        return self.max_entries - self.entries

    @property
    def is_full(self) -> bool:
        """Whether no more entries fit, so that the segment must be closed."""
        return self.room <= 0

    @property
    def size_in_bytes(self) -> int:
        """Bytes of valid entries."""
        self._load()
        return self.entries * self.entry.size

    def _entries_changed(self) -> None:
        """Called after `entries` has changed other than by an append, for subclasses."""

    def _append(self, content: bytes) -> None:
        mapped = self._mapped if self.is_writable else self._make_writable()
        assert mapped is not None
        entries = self.entries
        assert entries < self.max_entries, f"Appended to the full index {self.path}."
        mapped.write_at(entries * len(content), content)
        self.entries = entries + 1

    def _truncate_to_entries(self, entries: int) -> None:
        assert 0 <= entries <= self.entries
        if entries < self.entries:
            # Overwritten with zeros, because stale entries would look valid after a crash.
            start, end = entries * self.entry.size, self.entries * self.entry.size
            assert self._mapped is not None
            self._mapped.write_at(start, bytes(end - start))
            self.entries = entries
        self._entries_changed()

    def truncate(self) -> None:
        """Drop every entry."""
        self._load()
        self._truncate_to_entries(0)

    def reset(self) -> None:
        """Drop every entry and anything left by a crash, without creating a file."""
        self._load()
        if self._mapped is not None:
            self._mapped.resize(0)
        self.entries = 0
        self.is_writable = False
        self._entries_changed()

    def resize(self, max_size: int) -> None:
        """Let a reopened index grow to `max_size`; the next append resizes its file."""
        self.max_entries = max_size // self.entry.size
        self.is_writable = False

    def trim(self) -> None:
        """Truncate the file to its valid entries, because the segment is closed to appends."""
        self._load()
        if self._mapped is None:
            # An index without entries still has a file: a missing file would cause a rebuild.
            self._mapped = self._files.map(self.path, 0)
        self._mapped.resize(self.entries * self.entry.size)
        self.is_writable = False

    @property
    def file_exists(self) -> bool:
        return self._mapped is not None or self._files.exists(self.path)

    def flush(self) -> None:
        if self._mapped is not None:
            self._mapped.flush()

    def close(self) -> None:
        """Close the mapping without trimming. A later use opens the file again."""
        if self._mapped is not None:
            self._mapped.close()
            self._mapped = None
        self._is_loaded = False
        self.is_writable = False

    def delete(self) -> None:
        self.close()
        self._files.remove(self.path)

    def rename(self, path: str) -> None:
        """Rename the file, if there is one, and use the new path from now on."""
        if self.file_exists:
            self._files.rename(self.path, path)
        self.path = path

    def _check_size(self) -> None:
        self._load()
        size = 0 if self._mapped is None else self._mapped.capacity
        if size % self.entry.size != 0:
            raise CorruptIndexError(
                f"Index {self.path} has {size} bytes, not a multiple of {self.entry.size}."
            )
