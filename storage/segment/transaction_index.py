"""The aborted transactions of one segment, for read_committed consumers.

An entry is written when an abort marker is appended. It has the producer id, the transaction's
first and last offset, and the last stable offset at that time. Entries are in order of their last
offset. A search stops by the last stable offset of an entry: the transactions of later entries
begin at or above it. The file exists only after a transaction was aborted (Kafka's
`TransactionIndex`).
"""

from collections.abc import Iterator
from typing import NamedTuple

from ...clients.record.layout import TRANSACTION_INDEX_ENTRY
from ..files import FileHandle, Files
from .index import CorruptIndexError

_VERSION = 0


class AbortedTxn(NamedTuple):
    """One aborted transaction; `last_offset` is the offset of its abort marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The `.txnindex` file of one segment."""

    def __init__(self, files: Files, path: str, start_offset: int) -> None:
        self._files = files
        self.path = path
        self.start_offset = start_offset
        self._handle: FileHandle | None = None
        self._last_offset: int | None = None
        self._size: int | None = None

    def _loaded_size(self) -> int:
        """The size of the entries in bytes; on first use, opens the file if there is one."""
        if self._size is None:
            self._size = 0
            if self._files.exists(self.path):
                self._handle = self._files.open(self.path)
                self._size = self._handle.size()
        return self._size

    @property
    def size_in_bytes(self) -> int:
        """The size of the file in bytes."""
        return self._loaded_size()

    @property
    def is_empty(self) -> bool:
        return self._loaded_size() == 0

    @property
    def file_exists(self) -> bool:
        return self._handle is not None or self._files.exists(self.path)

    def append(self, txn: AbortedTxn) -> None:
        """Add a transaction, which must end after all transactions in the index."""
        size = self._loaded_size()
        if self._last_offset is None:
            self._last_offset = max((transaction.last_offset for transaction in self), default=-1)
        assert txn.last_offset > self._last_offset, "Aborted transactions come in order."
        if self._handle is None:
            self._handle = self._files.open(self.path, create=True)
        self._handle.write_at(size, TRANSACTION_INDEX_ENTRY.pack(_VERSION, *txn))
        self._size = size + TRANSACTION_INDEX_ENTRY.size
        self._last_offset = txn.last_offset

    def __iter__(self) -> Iterator[AbortedTxn]:
        size = self._loaded_size()
        if self._handle is None:
            return
        content = self._handle.pread(0, size - size % TRANSACTION_INDEX_ENTRY.size)
        for version, *fields in TRANSACTION_INDEX_ENTRY.iter_unpack(content):
            if version > _VERSION or version < 0:
                raise CorruptIndexError(f"{self.path} holds an entry of version {version}.")
            yield AbortedTxn(*fields)

    def collect(self, fetch_offset: int, upper_bound: int, transactions: list[AbortedTxn]) -> bool:
        """Add the transactions that overlap [fetch_offset, upper_bound) to `transactions`.

        Returns True if the indexes of later segments cannot have further ones.
        """
        for txn in self:
            if txn.last_offset >= fetch_offset and txn.first_offset < upper_bound:
                transactions.append(txn)
            if txn.last_stable_offset >= upper_bound:
                return True
        return False

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions that end at or above `offset`."""
        kept, last = 0, -1
        for txn in self:
            if txn.last_offset >= offset:
                break
            kept, last = kept + TRANSACTION_INDEX_ENTRY.size, txn.last_offset
        if self._handle is not None and kept < self._loaded_size():
            self._handle.truncate(kept)
            self._size = kept
        self._last_offset = last

    def reset(self) -> None:
        """Drop all entries."""
        if self._loaded_size() and self._handle is not None:
            self._handle.truncate(0)
        self._size = 0
        self._last_offset = -1

    def sanity_check(self) -> None:
        """Raises CorruptIndexError unless the file consists of whole, valid entries in order."""
        if self._loaded_size() % TRANSACTION_INDEX_ENTRY.size:
            raise CorruptIndexError(f"{self.path} ends in the middle of an entry.")
        before = AbortedTxn(-1, -1, self.start_offset - 1, -1)
        for txn in self:
            if txn.last_offset < self.start_offset:
                raise CorruptIndexError(
                    f"{self.path} holds a transaction that ends before its segment."
                )
            is_in_order = (
                txn.last_offset > before.last_offset
                and txn.last_stable_offset >= before.last_stable_offset
            )
            is_sound = (
                txn.producer_id >= 0
                and 0 <= txn.first_offset <= txn.last_offset
                and txn.last_stable_offset <= txn.last_offset + 1
            )
            if not (is_in_order and is_sound):
                raise CorruptIndexError(f"{self.path} holds an invalid or out-of-order entry.")
            before = txn

    def flush(self) -> None:
        if self._handle is not None:
            self._handle.flush()

    def close(self) -> None:
        if self._handle is not None:
            self._handle.close()
        self._handle, self._size = None, None

    def delete(self) -> None:
        self.close()
        self._files.remove(self.path)

    def rename(self, path: str) -> None:
        if self.file_exists:
            self._files.rename(self.path, path)
        if self._handle is not None:
            self._handle.renamed(path)
        self.path = path
