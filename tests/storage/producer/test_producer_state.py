"""Producer state: always the fold of the log, wherever it was saved and loaded again (I7 to I9)."""

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.record.batch import RecordBatch
from tierlog.clients.record.control import ControlRecordType
from tierlog.storage.producer.producer_entry import CompletedTxn
from tierlog.storage.producer.producer_snapshot import (
    CorruptSnapshotError,
    decode_snapshot,
    encode_snapshot,
)
from tierlog.storage.producer.producer_state import ProducerStateManager
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.storage.log_home import NOW_MS, idempotent, marker, plain

# Written by Apache Kafka 4.3.1 in the middle of a transaction.
KAFKA_S_SNAPSHOT = bytes.fromhex(
    "000125fc98bd0000000100000000000000010002000006dd000000000000"
    "06e300000010000001a1ff4f295c0000000200000000000005e2"
)


def manager(files: SimulatedFiles | None = None) -> ProducerStateManager:
    if files is None:
        files = SimulatedFiles(SimulatedDisk())
    files.mkdirs("/log")
    made = ProducerStateManager(files, "/log")
    made.scan_snapshots(files.listdir("/log"))
    return made


def numbered(view: memoryview, offset: int) -> RecordBatch:
    batch = RecordBatch(view)
    batch.assign(offset, 0)
    return batch


def apply(state: ProducerStateManager, view: memoryview) -> CompletedTxn | None:
    return state.apply(numbered(view, state.map_end_offset))


def test_kafka_s_snapshot_is_read_and_written_again_byte_for_byte() -> None:
    (entry,) = decode_snapshot(KAFKA_S_SNAPSHOT)
    assert (entry.producer_id, entry.producer_epoch, entry.coordinator_epoch) == (1, 2, 2)
    assert (entry.last_sequence, entry.last_offset) == (1757, 1763)
    assert entry.current_txn_first_offset == 1506
    assert entry.batches[0].first_sequence == 1741
    assert encode_snapshot([entry]) == KAFKA_S_SNAPSHOT


@given(position=st.integers(0, len(KAFKA_S_SNAPSHOT) - 1), flip=st.integers(1, 255))
def test_a_damaged_snapshot_is_never_believed(position: int, flip: int) -> None:
    damaged = bytearray(KAFKA_S_SNAPSHOT)
    damaged[position] ^= flip
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(bytes(damaged))


@given(length=st.integers(0, len(KAFKA_S_SNAPSHOT) - 1))
def test_a_torn_snapshot_is_never_believed(length: int) -> None:
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(KAFKA_S_SNAPSHOT[:length])


def test_the_first_open_transaction_holds_back_the_last_stable_offset() -> None:
    state = manager()
    apply(state, plain(3))
    apply(state, idempotent(0, producer=1, txn=True))
    apply(state, idempotent(0, producer=2, txn=True))
    assert state.first_unstable_offset == 3
    first = apply(state, marker(ControlRecordType.ABORT, producer=1))
    assert first is not None
    assert first == CompletedTxn(1, 3, 5, is_aborted=True)
    assert state.last_stable_offset_after(first) == 4
    # The marker is not replicated yet: a consumer must not see past the transaction.
    assert state.first_unstable_offset == 3
    state.on_high_watermark(5)
    assert state.first_unstable_offset == 3
    state.on_high_watermark(6)
    assert state.first_unstable_offset == 4
    second = apply(state, marker(ControlRecordType.COMMIT, producer=2))
    assert second is not None
    assert state.last_stable_offset_after(second) == 7
    state.on_high_watermark(7)
    assert state.first_unstable_offset is None


def test_an_idle_producer_is_forgotten_unless_its_transaction_is_open() -> None:
    state = manager()
    apply(state, idempotent(0, producer=1))
    apply(state, idempotent(0, producer=2, txn=True))
    state.remove_expired(NOW_MS + 86_399_999)
    assert set(state.entries) == {1, 2}
    state.remove_expired(NOW_MS + 86_400_000)
    assert set(state.entries) == {2}


def test_a_corrupt_snapshot_is_deleted_and_an_older_one_taken() -> None:
    files = SimulatedFiles(SimulatedDisk())
    state = manager(files)
    apply(state, idempotent(0))
    state.take_snapshot()
    apply(state, idempotent(1))
    state.take_snapshot()
    files.atomic_replace("/log/00000000000000000002.snapshot", b"damaged")
    again = manager(files)
    again.load(0, 2)
    assert again.map_end_offset == 1
    assert list(again.snapshot_offsets) == [
        1,
    ]
    assert again.entries[7].last_sequence == 0


def test_snapshots_outside_the_log_are_not_loaded_and_go_with_truncation() -> None:
    files = SimulatedFiles(SimulatedDisk())
    state = manager(files)
    for sequence in range(4):
        apply(state, idempotent(sequence))
        state.take_snapshot()
    state.truncate_and_reload(1, 3)
    assert list(state.snapshot_offsets) == [2, 3]
    assert (state.map_end_offset, state.entries[7].last_sequence) == (3, 2)


def test_snapshots_of_segments_stay_and_the_newest_beyond_them() -> None:
    state = manager()
    for sequence in range(6):
        apply(state, idempotent(sequence))
        state.take_snapshot()
    state.remove_stray_snapshots([0, 2, 4])
    assert list(state.snapshot_offsets) == [2, 4, 6]
    state.remove_stray_snapshots([0, 2, 6])
    assert list(state.snapshot_offsets) == [2, 6]


def test_a_snapshot_is_taken_once_per_offset() -> None:
    state = manager()
    state.take_snapshot()
    assert list(state.snapshot_offsets) == []
    apply(state, idempotent(0))
    state.take_snapshot()
    state.take_snapshot()
    assert list(state.snapshot_offsets) == [
        1,
    ]
    assert state.snapshot_file(1) == "/log/00000000000000000001.snapshot"
    assert state.snapshot_file(0) is None


def test_a_follower_takes_over_the_snapshot_of_the_tier() -> None:
    state = manager()
    apply(state, idempotent(0, producer=99))
    state.restore(KAFKA_S_SNAPSHOT, 1764)
    assert set(state.entries) == {1}
    assert (state.map_end_offset, state.first_unstable_offset) == (1764, 1506)
    assert list(state.snapshot_offsets) == [
        1764,
    ]
    with pytest.raises(CorruptSnapshotError):
        state.restore(b"nonsense", 1800)
    assert set(state.entries) == {1}


def test_batches_of_no_producer_only_move_the_end() -> None:
    state = manager()
    apply(state, plain(5))
    assert (state.entries, state.map_end_offset) == ({}, 5)


STEPS = st.lists(
    st.tuples(st.sampled_from(["data", "txn", "commit", "abort", "snapshot"]), st.integers(0, 2)),
    max_size=30,
)


def essence(state: ProducerStateManager) -> object:
    """What a snapshot can carry: of the five batches only the last."""
    return (
        state.map_end_offset,
        state.first_unstable_offset,
        {
            producer: (*entry.state()[:5], entry.last_sequence, entry.last_offset)
            for producer, entry in state.entries.items()
        },
    )


@given(steps=STEPS, cut=st.integers(0, 40))
def test_loading_a_snapshot_and_the_rest_of_the_log_is_the_fold_of_the_log(
    steps: list[tuple[str, int]], cut: int
) -> None:
    files = SimulatedFiles(SimulatedDisk())
    state = manager(files)
    log: list[RecordBatch] = []
    sequences = [0, 0, 0]
    is_open = [False, False, False]
    for kind, producer in steps:
        if kind == "snapshot":
            state.take_snapshot()
            continue
        if kind in ("commit", "abort"):
            control = ControlRecordType.COMMIT if kind == "commit" else ControlRecordType.ABORT
            view, is_open[producer] = marker(control, producer=producer), False
        else:
            is_open[producer] = txn = kind == "txn" or is_open[producer]
            view = idempotent(sequences[producer], 2, producer=producer, txn=txn)
            sequences[producer] += 2
        batch = numbered(view, state.map_end_offset)
        state.apply(batch)
        log.append(batch)
    survivors = [batch for batch in log if batch.next_offset <= cut]
    end = survivors[-1].next_offset if survivors else 0
    folded = manager()
    for batch in survivors:
        folded.apply(batch)
    reloaded = manager(files)
    reloaded.truncate_and_reload(0, end)
    for batch in survivors:
        if batch.base_offset >= reloaded.map_end_offset:
            reloaded.apply(batch)
    for each in (folded, reloaded):
        each.on_high_watermark(end)
    assert essence(reloaded) == essence(folded)
