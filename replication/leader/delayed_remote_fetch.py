"""A fetch that waits for the remote tier (`DelayedRemoteFetch`, KIP-405, KAFKA-14915).

All remote partitions of a fetch are read at the same time. The fetch is answered when every one of
them is done, when this broker's role for one changes, or when remote.fetch.max.wait.ms has passed
(KIP-1018); a read that isn't done by then returns no records and no error.

The error of a read that may succeed later is held back until the maximum wait has passed, unless
another partition has records. A Java consumer retries such an error at once, some two thousand
times a second, so an unavailable store would keep a core busy in the consumer and in this broker.

If every read returns nothing although there are records, because each first batch was larger than
its partition's limit, one partition is read again with a whole batch, so that a consumer never gets
stuck behind an earlier partition that is empty (KAFKA-19795).

A read continues when its fetch no longer waits for it: interrupting it would waste the bytes read
and could damage the caches it fills (KAFKA-15776), while finishing it makes the client's next
fetch quick. That is why the reads are tasks of the replica manager and not of the request.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...clients.errors import ErrorCode
from ...storage.log.fetch_data import FetchIsolation
from ..partition.fetch_data import FetchResults, aborted_transactions
from ..purgatory.purgatory import DelayedOperation
from .log_reader import PendingRemoteRead, set_current_leader

if TYPE_CHECKING:
    from ...tiering.reading.remote_log_reader import RemoteFetchResult

OnComplete = Callable[[FetchResults], None]


class RemoteReadsOfFetch(NamedTuple):
    """The reads of one fetch that need the remote tier."""

    pending: Sequence[PendingRemoteRead]
    """Read at the same time."""
    crowded_out: Sequence[PendingRemoteRead]
    """Read only if all the others return nothing."""
    read_again: "Callable[[DelayedRemoteFetch, PendingRemoteRead], None]"


class DelayedRemoteFetch(DelayedOperation):
    """A fetch with partitions that are being read from the remote tier."""

    __slots__ = (
        "_has_failed",
        "_leader_epochs",
        "_on_complete",
        "_outstanding",
        "_pending",
        "_read_again",
        "_results",
        "_roles",
        "_too_large",
    )

    def __init__(
        self,
        max_wait_ms: int,
        results: FetchResults,
        reads: RemoteReadsOfFetch,
        on_complete: OnComplete,
    ) -> None:
        super().__init__(max_wait_ms)
        self._results = results
        self._pending = reads.pending
        self._leader_epochs = [read.partition.leader_epoch for read in reads.pending]
        # A follower may serve a consumer (KIP-392).
        self._roles = [read.partition.role for read in reads.pending]
        self._outstanding = len(reads.pending)
        self._too_large = list(reads.crowded_out)
        self._read_again = reads.read_again
        self._on_complete = on_complete
        self._has_failed = False

    def try_complete(self) -> bool:
        for read, leader_epoch, role in zip(
            self._pending, self._leader_epochs, self._roles, strict=True
        ):
            partition = read.partition
            if partition.role is not role or partition.leader_epoch != leader_epoch:
                return self.force_complete()
        return self._outstanding == 0 and not self._is_held_back and self.force_complete()

    @property
    def _is_held_back(self) -> bool:
        return self._has_failed and not any(result.records for result in self._results)

    def on_complete(self) -> None:
        for read, role in zip(self._pending, self._roles, strict=True):
            if read.partition.role is not role and not read.partition.is_leader:
                # Keep the records of a read that finished before the leadership ended.
                result = self._results[read.index]
                if not result.records:
                    result.error_code = read.partition.not_leader().code
                    set_current_leader(result, read.partition.current_leader)
        self._on_complete(self._results)

    def fill(self, pending: PendingRemoteRead, fetched: "RemoteFetchResult") -> None:
        """Store the result of one read; ignored if the fetch has been answered already."""
        if self.is_completed:
            return
        result = self._results[pending.index]
        result.records = fetched.records
        if pending.read.isolation is FetchIsolation.TXN_COMMITTED:
            result.aborted_transactions = aborted_transactions(fetched.aborted_transactions or ())
        if fetched.first_entry_incomplete:
            self._too_large.append(pending)
        self._one_done()

    def fail(self, pending: PendingRemoteRead, error: ErrorCode) -> None:
        """Store the error of a failed read, for its partition only."""
        if self.is_completed:
            return
        result = self._results[pending.index]
        result.error_code = error
        result.high_watermark = result.last_stable_offset = result.log_start_offset = -1
        result.aborted_transactions = None
        self._has_failed = self._has_failed or error is not ErrorCode.OFFSET_OUT_OF_RANGE
        self._one_done()

    def _one_done(self) -> None:
        self._outstanding -= 1
        if (
            not self._outstanding
            and self._too_large
            and not any(result.records for result in self._results)
        ):
            first = min(self._too_large, key=lambda pending: pending.index)
            self._too_large.clear()
            self._outstanding = 1
            first.read = first.read._replace(min_one_message=True)
            self._read_again(self, first)
            return
        self.try_complete()
