"""Answers fetches of the partitions on this broker, from local logs and the remote tier.

A fetch that finds enough is answered in the same call, without a future or a task. One that finds
too little waits in the fetch purgatory; one that needs the remote tier waits in another, because
different events complete them (`delayed_fetch.py`, `delayed_remote_fetch.py`).

One append may complete a hundred fetches of thousands of partitions each, which takes seconds. Such
fetches are read again one in each turn of the event loop, a follower's first.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.primitives import size_of
from ...clients.runtime.task_owner import TaskOwner
from ..partition.fetch_data import FetchParams, FetchPartition, FetchResults
from ..purgatory.purgatory import Purgatory
from ..remote_tier import RemoteTier
from .delayed_fetch import DelayedFetch
from .delayed_remote_fetch import DelayedRemoteFetch, RemoteReadsOfFetch
from .log_reader import LogReader, PendingRemoteRead, ReadOutcome

_log = logging.getLogger(__name__)

_LARGE = 256
"""The partitions of a fetch from which on it has a turn of the event loop for itself."""


class LeaderFetch:
    """Answers fetches from local logs and the remote tier."""

    def __init__(
        self,
        reader: LogReader,
        loop: asyncio.AbstractEventLoop,
        remote_tier: RemoteTier | None,
        remote_fetch_max_wait_ms: int = 500,
        remote_reads_max: int = 10_000,
    ) -> None:
        self._reader = reader
        self._loop = loop
        self._remote_tier = remote_tier
        self.remote_fetch_max_wait_ms = remote_fetch_max_wait_ms
        self._remote_reads = TaskOwner(remote_reads_max)
        # What reads large fetches again that are complete, one in each turn.
        self._in_turns: deque[Callable[[], None]] = deque()
        self.purgatory: Purgatory[DelayedFetch] = Purgatory("Fetch", loop)
        self.remote_purgatory: Purgatory[DelayedRemoteFetch] = Purgatory("RemoteFetch", loop)

    def fetch(
        self, params: FetchParams, partitions: Sequence[FetchPartition]
    ) -> "FetchResults | asyncio.Future[FetchResults]":
        """The results in request order, or a future of them if the fetch has to wait.

        Cancelling the future ends the wait, but not the remote reads under way.
        """
        outcome = self._reader.read(params, partitions)
        if outcome.remote:
            return self._fetch_remote(outcome)
        if (
            outcome.readable_bytes >= params.min_bytes
            or outcome.must_answer
            or params.max_wait_ms <= 0
            or not partitions
        ):
            if params.is_from_follower:
                self._count_replicated(partitions, outcome.results)
            return outcome.results
        return self._wait_for_bytes(params, partitions)

    async def stop(self) -> None:
        """Answer the waiting fetches with the results so far, and cancel the remote reads."""
        self.purgatory.shutdown()
        while self._in_turns:
            self._in_turns.popleft()()
        self.remote_purgatory.shutdown()
        await self._remote_reads.stop()

    def _wait_for_bytes(
        self, params: FetchParams, partitions: Sequence[FetchPartition]
    ) -> "asyncio.Future[FetchResults]":
        answer: asyncio.Future[FetchResults] = self._loop.create_future()

        def read_again() -> None:
            if answer.done():
                return
            outcome = self._reader.read(params, partitions, has_waited=True)
            if outcome.remote:
                # Retention has moved local data to the remote tier while we waited.
                self._fetch_remote(outcome, answer)
            else:
                if params.is_from_follower:
                    self._count_replicated(partitions, outcome.results)
                answer.set_result(outcome.results)

        def complete() -> None:
            if len(partitions) < _LARGE:
                read_again()
            elif not answer.done():
                self._read_in_turn(read_again, is_urgent=params.is_from_follower)

        delayed = DelayedFetch(params, partitions, self._reader, complete)
        keys = [self._reader.partition_for(fetch_partition) for fetch_partition in partitions]
        self.purgatory.try_complete_else_watch(delayed, keys)
        answer.add_done_callback(lambda _: delayed.force_complete())
        return answer

    def _read_in_turn(self, read_again: Callable[[], None], *, is_urgent: bool) -> None:
        if not self._in_turns:
            self._loop.call_soon(self._read_next)
        if is_urgent:
            self._in_turns.appendleft(read_again)
        else:
            self._in_turns.append(read_again)

    def _read_next(self) -> None:
        """Nothing is left if the fetches were answered by `stop`."""
        if not self._in_turns:
            return
        read_again = self._in_turns.popleft()
        if self._in_turns:
            self._loop.call_soon(self._read_next)
        read_again()

    def _count_replicated(
        self, partitions: Sequence[FetchPartition], results: FetchResults
    ) -> None:
        """Count the bytes of throttled replicas against the leaders' quota (KIP-73)."""
        throttle = self._reader.throttle
        if throttle is None:
            return
        now = self._loop.time()
        for fetch_partition, result in zip(partitions, results, strict=True):
            if result.records:
                partition = self._reader.partition_for(fetch_partition)
                name, config = partition.topic_partition, partition.log.config
                throttle.record(name, config, size_of(result.records), now)

    def _fetch_remote(
        self, outcome: ReadOutcome, answer: "asyncio.Future[FetchResults] | None" = None
    ) -> "asyncio.Future[FetchResults]":
        """Read all remote partitions at the same time; `DelayedRemoteFetch` answers the fetch."""
        future: asyncio.Future[FetchResults] = answer or self._loop.create_future()

        def respond(results: FetchResults) -> None:
            if not future.done():
                future.set_result(results)

        wait_ms = self.remote_fetch_max_wait_ms
        reads = RemoteReadsOfFetch(outcome.remote, outcome.crowded_out, self._start_remote_read)
        delayed = DelayedRemoteFetch(wait_ms, outcome.results, reads, respond)
        for pending in outcome.remote:
            self._start_remote_read(delayed, pending)
        if not delayed.is_completed:
            keys = [pending.partition for pending in outcome.remote]
            self.remote_purgatory.try_complete_else_watch(delayed, keys)
        future.add_done_callback(lambda _: delayed.force_complete())
        return future

    def _start_remote_read(self, delayed: DelayedRemoteFetch, pending: PendingRemoteRead) -> None:
        if self._remote_tier is None:
            # The topic is tiered but this broker has been restarted without a remote tier.
            delayed.fail(pending, ErrorCode.OFFSET_OUT_OF_RANGE)
            return
        try:
            self._remote_reads.start(
                self._read_remote(self._remote_tier, delayed, pending),
                f"remote read of {pending.partition.topic_partition}",
            )
        except RuntimeError:
            # Too many reads: an error for this partition only, which the client retries.
            _log.warning(
                "Too many pending reads from the remote tier: rejecting a read of %s",
                pending.partition.topic_partition,
            )
            delayed.fail(pending, ErrorCode.KAFKA_STORAGE_ERROR)

    async def _read_remote(
        self,
        remote_tier: RemoteTier,
        delayed: DelayedRemoteFetch,
        pending: PendingRemoteRead,
    ) -> None:
        """Store the result or the error of one read in its fetch, if the fetch still waits."""
        try:
            fetched = await remote_tier.read(pending.read)
        except KafkaError as error:
            delayed.fail(pending, error.code)
        except Exception:
            # A bug must not take the broker down; the client gets an error.
            _log.exception("Internal error reading %s from the remote tier", pending.read)
            delayed.fail(pending, ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            delayed.fill(pending, fetched)
