"""Whatever is written and however often it is cleaned, a compacted log means the same.

Batches of random keys, values and tombstones, segments closed and cleaned at random, with offset
maps of random size and time that goes on at random; some producers are idempotent.
"""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings, strategies as st

from tierlog.clients.record.builder import build_batch
from tierlog.storage.log.unified_log import UnifiedLog

from ..compacted_log import COMPACTED, HOUR_MS, Pair, clean, last_values, record, roll, surviving
from ..log_home import NOW_MS, LogHome, append

KEYS = st.sampled_from(
    ["a", "b", "c", "a key of more than sixteen bytes", "another such key, long"]
)
PAIRS: st.SearchStrategy[Pair] = st.tuples(KEYS, st.none() | st.sampled_from(["x", "y" * 30]))
# Five of the longest records would be more than a segment of these logs may hold.
WRITE = st.tuples(st.just("write"), st.lists(PAIRS, min_size=1, max_size=4), st.booleans())
CLEAN = st.tuples(st.just("clean"), st.integers(1, 6), st.integers(0, HOUR_MS))
ROLL = st.just(("roll",))
STEPS = st.lists(WRITE | WRITE | CLEAN | ROLL, max_size=25)

Step = tuple[str] | tuple[str, list[Pair], bool] | tuple[str, int, int]


@dataclass
class Run:
    """A log, what was ever written to it, and what time it is."""

    log: UnifiedLog
    now_ms: int = NOW_MS
    first_dirty: int = 0
    sequence: int = 0
    written: list[tuple[int, str, str | None]] = field(
        default_factory=list[tuple[int, str, str | None]]
    )

    def write(self, pairs: list[Pair], is_idempotent: bool) -> None:
        first = self.log.log_end_offset
        made = [record(key, value) for key, value in pairs]
        if is_idempotent:
            batch = build_batch(made, producer_id=7, producer_epoch=0, base_sequence=self.sequence)
            self.sequence += len(made)
        else:
            batch = build_batch(made)
        append(self.log, memoryview(batch))
        self.written += [(first + i, key, value) for i, (key, value) in enumerate(pairs)]

    def clean(self, slots: int, passed_ms: int) -> None:
        self.now_ms += passed_ms
        if len(self.log.local.segments) > 1:
            self.first_dirty = clean(
                self.log, now_ms=self.now_ms, first_dirty=self.first_dirty, slots=slots
            )


def run(log: UnifiedLog, steps: list[Step], *, max_passed_ms: int) -> Run:
    story = Run(log)
    for name, *details in steps:
        if name == "write":
            pairs, is_idempotent = details
            assert isinstance(pairs, list)
            story.write(pairs, bool(is_idempotent))
        elif name == "clean":
            slots, passed_ms = details
            assert isinstance(slots, int)
            assert isinstance(passed_ms, int)
            story.clean(slots, min(passed_ms, max_passed_ms))
        else:
            roll(log)
    return story


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_compacted_log_gives_each_key_its_last_value(steps: list[Step]) -> None:
    with TemporaryDirectory() as directory:
        home = LogHome(Path(directory), COMPACTED)
        story = run(home.open(), steps, max_passed_ms=HOUR_MS)
        left = surviving(story.log)
        assert set(left) <= set(story.written), "records and their offsets never change"
        assert [offset for offset, _, _ in left] == sorted(offset for offset, _, _ in left)
        assert last_values(left) == last_values(story.written)
        story.log.close(NOW_MS)
        again = home.open(clean=False)
        again.update_high_watermark(again.log_end_offset)
        assert surviving(again) == left
        assert again.log_end_offset == (story.written[-1][0] + 1 if story.written else 0)
        entry = again.producers.get(7)
        assert (-1 if entry is None else entry.last_sequence) == story.sequence - 1
        again.release()


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_reader_who_is_done_within_delete_retention_sees_every_last_tombstone(
    steps: list[Step],
) -> None:
    with TemporaryDirectory() as directory:
        home = LogHome(Path(directory), COMPACTED)
        # All cleanings together take less time than tombstones are kept.
        story = run(home.open(), steps, max_passed_ms=HOUR_MS // 30)
        last = {key: (offset, key, value) for offset, key, value in story.written}
        assert set(last.values()) <= set(surviving(story.log))
        story.log.release()
