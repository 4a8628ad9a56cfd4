"""Replays what is committed into the image of a standby, a few milliseconds in each turn.

    committed records -> delta -> image -> published

When a node starts, its whole metadata log becomes committed at once: seconds of work, in which the
same event loop must answer votes, fetches and heartbeats. So the records go into a delta some at a
time, and the image is what it was until the delta is complete. It is complete at the end of a
change only: nobody ever sees half of a batch or of a metadata transaction (Kafka's
`MetadataBatchLoader`).

A turn is limited by counts, not by time, so that a simulation can replay it.
"""

from collections.abc import Callable, Generator, Iterable
from typing import Any

from ..metadata.cluster_image import ClusterDelta
from ..metadata.committed_reader import RECORDS_A_STEP, CommittedRecords
from ..metadata.metadata_log import MetadataLog
from .controller_state import ControllerCore, Replayed

STEPS_A_TURN = 4
"""Each step reads or replays `RECORDS_A_STEP` records, which takes two milliseconds at most."""

RECORDS_A_PUBLICATION = 256
"""After so many records there is a publication, once the standby has caught up for the first time:
what they change is work for those who listen, too."""

_IsTurnOver = bool


class StandbyReplay:
    """See the module. It goes on where it was after each turn."""

    def __init__(
        self, core: ControllerCore[Any], log: MetadataLog, publish: Callable[[Replayed], None]
    ) -> None:
        """`publish` is called with each new image of what is committed."""
        self._core = core
        self._log = log
        self._publish = publish
        self._end = 0
        self._steps: Generator[_IsTurnOver, None, None] | None = None
        self._has_caught_up = False

    def go_on(self, end: int) -> bool:
        """Replay what is committed below `end` for one turn; returns whether that was all.

        Raises KafkaError(INVALID_RECORD, CORRUPT_MESSAGE) for a log that cannot be read.
        """
        self._end = end
        if self._steps is None:
            self._steps = self._replay_log()
        self._log.reader.is_ahead = True
        for _ in range(STEPS_A_TURN):
            is_turn_over = next(self._steps, None)
            if is_turn_over is None:
                self._steps, self._has_caught_up = None, True
                self._log.reader.is_ahead = False
                return True
            if is_turn_over:
                break
        return False

    def begin_with_snapshot(self) -> None:
        """A snapshot has replaced the log: replay it in the next turns, then the log after it."""
        self._steps = self._replay_snapshot()

    def _replay_snapshot(self) -> Generator[_IsTurnOver, None, None]:
        records, delta = self._log.replay_snapshot(), ClusterDelta(self._core.empty)
        yield from self._replay(records, delta, is_whole=True)
        yield from self._replay_log()

    def _replay_log(self) -> Generator[_IsTurnOver, None, None]:
        end = -1
        while end < self._end:
            end = self._end
            delta, is_whole = ClusterDelta(self._core.committed), not self._has_caught_up
            yield from self._replay(self._log.reader.steps(end), delta, is_whole=is_whole)

    def _replay(
        self, changes: Iterable[CommittedRecords | None], delta: ClusterDelta, *, is_whole: bool
    ) -> Generator[_IsTurnOver, None, None]:
        """Replay changes, and publish once if it `is_whole`, else after some records."""
        last: CommittedRecords | None = None
        in_delta = since_pause = 0
        for change in changes:
            if change is None:
                yield False
                continue
            records = change.records
            for first in range(0, max(1, len(records)), RECORDS_A_STEP):
                some = records[first : first + RECORDS_A_STEP]
                delta.replay_all(some)
                since_pause += 1 + len(some)
                if since_pause >= RECORDS_A_STEP:
                    since_pause = 0
                    yield False
            last = change
            in_delta += len(records)
            if in_delta >= RECORDS_A_PUBLICATION and not is_whole:
                self._take(delta, last)
                yield True
                delta, last, in_delta = ClusterDelta(self._core.committed), None, 0
        if last is not None:
            self._take(delta, last)
            yield True

    def _take(self, delta: ClusterDelta, last: CommittedRecords) -> None:
        self._publish(self._core.take(delta, last.last_offset, last.epoch))
