"""How much of an upload was handed to the store."""

from tierlog.clients.kafka_uuid import Uuid
from tierlog.tiering.remote_storage import LogSegmentData, SegmentBytes
from tierlog.tiering.task.in_flight import InFlight

ID = Uuid(b"segment id, 16 b")


class Segment:
    """Zeros."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def slice(self, offset: int, size: int) -> "Segment":
        assert offset + size <= self.nbytes
        return Segment(size)

    def read(self) -> bytes:
        return bytes(self.nbytes)


def data_of(log: SegmentBytes) -> LogSegmentData:
    return LogSegmentData(
        log_segment=log,
        offset_index=b"",
        time_index=b"",
        transaction_index=None,
        producer_snapshot=b"",
        leader_epoch_index=b"",
    )


def test_the_share_grows_with_what_is_read_and_ends_with_the_upload() -> None:
    uploads = InFlight()
    assert uploads.share(ID) is None
    with uploads.uploading(ID, data_of(Segment(100))) as counted:
        assert uploads.share(ID) == 0
        assert counted.log_segment.nbytes == 100
        assert counted.log_segment.slice(0, 30).read() == bytes(30)
        assert uploads.share(ID) == 0.3
        counted.log_segment.slice(30, 70).slice(0, 20).read()
        assert uploads.share(ID) == 0.5
        # A store that tries again reads again.
        counted.log_segment.read()
        assert uploads.share(ID) == 1
    assert uploads.share(ID) is None


def test_an_upload_that_fails_is_none_any_more() -> None:
    uploads = InFlight()
    try:
        with uploads.uploading(ID, data_of(Segment(0))):
            assert uploads.share(ID) == 1
            raise OSError("disk")
    except OSError:
        assert uploads.share(ID) is None
