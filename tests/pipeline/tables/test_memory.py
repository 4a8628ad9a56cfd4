"""A topic that is larger than memory streams through little of it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.tests.house_rules import ROOT
from tierlog.tests.pipeline.spark.folder_tier import TOPIC, Tier
from tierlog.tiering.store.object_keys import object_key

pytestmark = [pytest.mark.slow, pytest.mark.long]

MIB = 1024 * 1024
GIGABYTE = 1_000_000_000
BATCH_RECORDS, VALUE = 1_000, b"v" * 1_000
SEGMENTS, BATCHES = 8, 128
MEMORY_MAX_MIB = 300

_PROGRAM = """
import re, sys
from pathlib import Path
from tierlog.tables import scan
rows = nbytes = 0
for batch in scan(sys.argv[1], sys.argv[2]).reader():
    rows += batch.num_rows
    nbytes += batch.nbytes
# Not getrusage: it counts what the process was before it became this program.
(peak_kib,) = re.findall(r"VmHWM:\\s+([0-9]+) kB", Path("/proc/self/status").read_text())
print(rows, nbytes, int(peak_kib) // 1024)
"""


def segment(first: int) -> bytes:
    """The same batch again and again: its base offset is outside the CRC."""
    records = [Record(0, number, None, VALUE) for number in range(BATCH_RECORDS)]
    batch = bytearray(build_batch(records, leader_epoch=0))
    log = bytearray()
    for number in range(BATCHES):
        batch[:8] = (first + number * BATCH_RECORDS).to_bytes(8, "big")
        log += batch
    return bytes(log)


def test_a_gigabyte_streams_through_a_third_of_it(tmp_path: Path) -> None:
    tier = Tier(tmp_path / "tier")
    each = BATCHES * BATCH_RECORDS
    size = 0
    for number in range(SEGMENTS):
        metadata = tier.bucket.put_log(number + 1, segment(number * each))
        size += len(tier.bucket.objects[object_key(metadata, "log")])
        tier.write()
        # On the disk, it need not be in the memory of this process.
        del tier.bucket.objects[object_key(metadata, "log")]
    assert size > GIGABYTE
    answer = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tier.directory), TOPIC],
        env={"PYTHONPATH": str(ROOT / ".namespace")},
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    shutil.rmtree(tier.directory)
    rows, nbytes, peak_mib = map(int, answer.stdout.split())
    print(f"{rows:,} rows, {nbytes / MIB:,.0f} MiB in Arrow, at most {peak_mib} MiB of memory")
    assert rows == SEGMENTS * each
    assert nbytes > size * 0.9
    assert peak_mib < MEMORY_MAX_MIB
