"""Answers fetches of the partitions on this broker, from local logs and the remote tier.

A fetch that finds enough is answered in the same call, without a future or a task. One that finds
too little waits in the fetch purgatory; one that needs the remote tier waits in another, because
different events complete them (`delayed_fetch.py`, `delayed_remote_fetch.py`).

A fetch of thousands of partitions is read in steps, so that others have their turn in between: a
follower's fetch has all partitions that it follows from here.
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import cast

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

InTurn = Callable[[Generator[None, None, object]], asyncio.Future[object]]
"""Queues work that is done in steps; the future gets its result."""


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
        self.purgatory: Purgatory[DelayedFetch] = Purgatory("Fetch", loop)
        self.remote_purgatory: Purgatory[DelayedRemoteFetch] = Purgatory("RemoteFetch", loop)

    def fetch(
        self, params: FetchParams, partitions: Sequence[FetchPartition]
    ) -> "FetchResults | asyncio.Future[FetchResults]":
        """The results in request order, or a future of them if the fetch has to wait.

        Cancelling the future ends the wait, but not the remote reads under way.
        """
        outcome = self._reader.read(params, partitions)
        settled = self._settle(params, partitions, outcome)
        if settled is None:
            return self._wait_for_bytes(params, partitions, outcome)
        return settled

    def fetch_in_steps(
        self, params: FetchParams, partitions: Sequence[FetchPartition], in_turn: InTurn
    ) -> "Generator[None, None, FetchResults | asyncio.Future[FetchResults]]":
        """The same for thousands of partitions, with pauses.

        A fetch that has waited is read again by `in_turn`.
        """
        outcome = yield from self._reader.read_in_steps(params, partitions)
        settled = self._settle(params, partitions, outcome)
        if settled is not None:
            return settled
        answer: asyncio.Future[FetchResults] = self._loop.create_future()
        read_again = partial(self._read_again_in_steps, params, partitions, in_turn, answer)
        delayed = DelayedFetch(params, partitions, self._reader, read_again)
        try:
            keys = [self._reader.partition_for(each) for each in partitions]
        except KafkaError:
            # A partition has gone in a pause: its error is in the response.
            delayed.force_complete()
            return answer
        self.purgatory.watch(delayed, keys)
        answer.add_done_callback(lambda _: delayed.force_complete())
        try:
            yield from delayed.try_complete_in_steps()
        except BaseException:
            # The client has disconnected, or a step has failed: nothing must wait any longer.
            answer.cancel()
            raise
        return answer

    def _settle(
        self, params: FetchParams, partitions: Sequence[FetchPartition], outcome: ReadOutcome
    ) -> "FetchResults | asyncio.Future[FetchResults] | None":
        """The results, if what has been read is enough to answer, or what to wait for if the
        remote tier has it; None if the fetch must wait for more."""
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
        return None

    async def stop(self) -> None:
        """Answer the waiting fetches with the results so far, and cancel the remote reads."""
        self.purgatory.shutdown()
        self.remote_purgatory.shutdown()
        await self._remote_reads.stop()

    def _wait_for_bytes(
        self, params: FetchParams, partitions: Sequence[FetchPartition], outcome: ReadOutcome
    ) -> "asyncio.Future[FetchResults]":
        answer: asyncio.Future[FetchResults] = self._loop.create_future()

        def read_again() -> None:
            if answer.done():
                return
            later = self._reader.read(params, partitions, has_waited=True)
            self._answer(params, partitions, later, answer)

        delayed = DelayedFetch(params, partitions, self._reader, read_again)
        keys = [self._reader.partition_for(fetch_partition) for fetch_partition in partitions]
        if params.min_bytes <= 1 and not outcome.is_held_back:
            # It has just been read: nothing is there.
            self.purgatory.watch(delayed, keys)
        else:
            self.purgatory.try_complete_else_watch(delayed, keys)
        answer.add_done_callback(lambda _: delayed.force_complete())
        return answer

    def _read_again_in_steps(
        self,
        params: FetchParams,
        partitions: Sequence[FetchPartition],
        in_turn: InTurn,
        answer: "asyncio.Future[FetchResults]",
    ) -> None:
        """Read a fetch that has waited, when it is its turn, and answer it."""
        if answer.done():
            return
        reading = in_turn(self._reader.read_in_steps(params, partitions, has_waited=True))
        answer.add_done_callback(lambda _: reading.cancel())

        def read(done: asyncio.Future[object]) -> None:
            if done.cancelled():
                answer.cancel()
                return
            error = done.exception()
            if answer.done():
                return
            if error is None:
                self._answer(params, partitions, cast("ReadOutcome", done.result()), answer)
            else:
                answer.set_exception(error)

        reading.add_done_callback(read)

    def _answer(
        self,
        params: FetchParams,
        partitions: Sequence[FetchPartition],
        outcome: ReadOutcome,
        answer: "asyncio.Future[FetchResults]",
    ) -> None:
        """Answer a fetch that has waited."""
        if outcome.remote:
            # Retention has moved local data to the remote tier while we waited.
            self._fetch_remote(outcome, answer)
        else:
            if params.is_from_follower:
                self._count_replicated(partitions, outcome.results)
            answer.set_result(outcome.results)

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
                try:
                    partition = self._reader.partition_for(fetch_partition)
                except KafkaError:
                    # It has gone while others were read.
                    continue
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
