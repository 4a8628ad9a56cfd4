"""What an audit adds up while it reads a segment."""

import asyncio

from tierlog.clients.record.batch import Record, stamp_crc, stamp_log_append_time
from tierlog.clients.record.builder import build_batch
from tierlog.pipeline.spark.audit.segment_verdict import audit_segment
from tierlog.tests.tiering.tools.bucket import Bucket
from tierlog.tiering.store.manifest import decode_manifest
from tierlog.tiering.store.object_keys import object_key


def test_records_stamped_by_the_broker_are_as_old_as_their_stamp() -> None:
    """The base timestamp of such a batch is still the producer's, who may be a year behind."""
    batch = bytearray(
        build_batch([Record(0, 1_000, None, b"a"), Record(1, 1_500, None, b"b")], leader_epoch=0)
    )
    stamp_log_append_time(memoryview(batch), 0, 900_000)
    stamp_crc(memoryview(batch), 0, len(batch))
    bucket = Bucket()
    metadata = bucket.put_log(1, bytes(batch))
    manifest = decode_manifest(bucket.objects[object_key(metadata, "manifest")])
    verdict = asyncio.run(audit_segment(bucket, manifest))
    assert verdict.is_sound, verdict.findings
    assert (verdict.totals.first_ms, verdict.totals.last_ms) == (900_000, 900_000)
