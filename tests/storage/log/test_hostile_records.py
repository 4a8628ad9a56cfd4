"""Whatever a client puts into a batch with a right CRC: what a log takes harms nothing behind it.

Batches are made from the format with lies anywhere in them. A compacted log opens all of them, so
all that it takes can be read, found by time, compacted and recovered.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.batch import stamp_crc
from tierlog.clients.record.compression import CompressionType, compress
from tierlog.clients.record.layout import BATCH_OVERHEAD, HEADER, LOG_OVERHEAD
from tierlog.storage.log.fetch_data import RemoteTimestampLookup

from ...clients.record.record_payloads import TIME, payloads
from ..compacted_log import COMPACTED, all_batches, clean, roll
from ..log_home import NOW_MS, LogHome, append

REFUSALS = {
    ErrorCode.INVALID_RECORD,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.RECORD_LIST_TOO_LARGE,
}


@st.composite
def batches(draw: st.DrawFn) -> memoryview:
    """A batch with a right CRC, lies in its header and its records, any codec."""
    plain, count, latest = draw(payloads())
    codec = draw(st.sampled_from(CompressionType))
    payload = bytes(compress(codec, plain))
    if draw(st.integers(0, 9)) == 0:
        payload = payload[: draw(st.integers(0, len(payload)))]
    attributes = codec | draw(st.sampled_from((0, 0, 0, 0x08, 0x40, 0x780)))
    producer = draw(st.sampled_from(((-1, -1, -1), (7, 0, 0), (-1, 3, 2))))
    last_delta = draw(st.sampled_from((count - 1, count - 1, count - 1, count, 2**31 - 1)))
    built = bytearray(
        HEADER.pack(
            0,
            BATCH_OVERHEAD - LOG_OVERHEAD + len(payload),
            draw(st.sampled_from((-1, 0, 2**31 - 1))),
            2,
            0,
            attributes,
            last_delta,
            TIME,
            latest,
            *producer,
            count,
        )
        + payload
    )
    view = memoryview(built)
    stamp_crc(view, 0, len(built))
    return view


@given(st.lists(batches(), min_size=1, max_size=6))
@settings(deadline=None, max_examples=40)
def test_what_a_log_takes_harms_nothing_behind_it(made: list[memoryview]) -> None:
    with TemporaryDirectory() as directory:
        home = LogHome(Path(directory), COMPACTED)
        log = home.open()
        for batch in made:
            try:
                append(log, batch)
            except KafkaError as error:
                if error.code not in REFUSALS:
                    raise
        roll(log)
        for timestamp in (0, TIME, TIME + 60, NOW_MS, -3):
            found = log.offset_for_timestamp(timestamp)
            assert not isinstance(found, RemoteTimestampLookup), "The log is not tiered."
            assert found is None or found.offset < log.log_end_offset
        if log.log_end_offset:
            clean(log)
        for each in all_batches(log):
            assert len(list(each.records())) == each.record_count
        end = log.log_end_offset
        log.close(NOW_MS)
        assert home.open(clean=False).log_end_offset == end
