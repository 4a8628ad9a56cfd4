"""One bad object in a tier costs itself: whoever reads the tier says so in a line and goes on.

The object is made from its format (`hostile_objects.py`). Everybody who reads tiers meets it: the
tools, the scrub, a rebuild, a mount, the planner of Spark scans, and a broker's fetch. What lies
beside it is found, read and kept as before. `--seeds 0-9999` runs ten thousand.
"""

import asyncio
import os
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pytest

from tierlog.clients.errors import KafkaError
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.pipeline.reading.scan import plan_scan, read_task
from tierlog.pipeline.reading.scan_options import ScanError, scan_options
from tierlog.storage.files import OsFiles
from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tests.fuzz.hostile_objects import (
    HostileBucket,
    hostile_bucket,
    hostile_snapshot,
    packed,
    sound_bucket,
    unpacked,
)
from tierlog.tests.house_rules import ROOT
from tierlog.tests.tiering.remote_partition import PARTITION, RemotePartition
from tierlog.tests.tiering.tools.bucket import Bucket
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.metadata.metadata_snapshot import (
    BadSnapshotError,
    Snapshot,
    TopicIdentity,
    decode_snapshot,
    encode_snapshot,
)
from tierlog.tiering.reading.chunk_cache import ChunkCache
from tierlog.tiering.reading.remote_index_cache import RemoteIndexCache
from tierlog.tiering.reading.remote_log_reader import RemoteLogReader
from tierlog.tiering.remote_storage import RemoteStorageError
from tierlog.tiering.store.fsspec_storage import FsspecStorage
from tierlog.tiering.store.object_keys import object_key, object_stem
from tierlog.tiering.store.remote_url import RemoteUrl
from tierlog.tiering.tier_owner import OWNER_KEY, read_owner
from tierlog.tiering.tools.lineage_choice import remote_log_of
from tierlog.tiering.tools.mounted_lineages import TierWatcher
from tierlog.tiering.tools.orphans import find_orphans
from tierlog.tiering.tools.plan_rebuild import plan_rebuild
from tierlog.tiering.tools.tier_check import check_segments, check_survey
from tierlog.tiering.tools.tier_contents import list_contents
from tierlog.tiering.tools.tier_survey import Finding, survey_tier

LINE_MAX = 1_500

SEEDS = pytest.mark.seeds("0-9", long="10-499")


def is_plain(line: str) -> bool:
    """Whether it is one line for a terminal, and not longer than anybody reads."""
    return line.isprintable() and len(line) <= LINE_MAX


def known_of(hostile: HostileBucket) -> Mapping[TopicIdPartition, RemoteLog]:
    """What the metadata topic says: every segment as it was when it was sound."""
    by_partition: dict[TopicIdPartition, list[RemoteLogSegmentMetadata]] = {}
    for each in hostile.segments:
        by_partition.setdefault(each.topic_id_partition, []).append(each)
    return {each: remote_log_of(each, segments) for each, segments in by_partition.items()}


async def look(hostile: HostileBucket) -> list[Finding]:
    """All that `verify` and `ls` say."""
    survey = await survey_tier(hostile.bucket)
    for each in hostile.untouched:
        assert object_stem(each) in survey.manifests, f"{each} is lost for {hostile.what}"
    known = known_of(hostile)
    for listed in (*list_contents(survey, known), *list_contents(survey, None)):
        listed.fields()
    findings = await check_survey(hostile.bucket, survey, known)
    return findings + await check_segments(hostile.bucket, survey, lambda _done, _total: None)


async def scrub(hostile: HostileBucket) -> None:
    """Nothing of a live segment is an orphan."""
    survey = await survey_tier(hostile.bucket)
    orphans = find_orphans(survey.listing, known_of(hostile))
    removed = {each.key for orphan in orphans for each in orphan.objects}
    for segment in hostile.segments:
        for suffix in ("log", "index", "timeindex", "txnindex", "snapshot", "manifest"):
            assert object_key(segment, suffix) not in removed, hostile.what


@SEEDS
def test_the_tools_tell_one_bad_object_and_everything_else(simulation_seed: int) -> None:
    hostile = hostile_bucket(simulation_seed)
    findings = asyncio.run(look(hostile))
    asyncio.run(scrub(hostile))
    for finding in findings:
        assert is_plain(str(finding)), (hostile.what, str(finding)[:200])
    for each in hostile.untouched:
        about = [f for f in findings if f.is_trouble and f.key.startswith(object_stem(each))]
        assert not about, (hostile.what, *map(str, about))


@SEEDS
async def test_a_rebuild_is_planned_or_refused_in_a_line(simulation_seed: int) -> None:
    hostile = hostile_bucket(simulation_seed)
    survey = await survey_tier(hostile.bucket)
    for skip_holes in (False, True):
        plan = await plan_rebuild(hostile.bucket, survey, skip_holes=skip_holes)
        assert plan.next_producer_id >= 0
        for each in plan.findings:
            assert is_plain(str(each)), (hostile.what, str(each)[:200])


@SEEDS
def test_a_mount_shows_the_rest(simulation_seed: int) -> None:
    hostile = hostile_bucket(simulation_seed)
    view = asyncio.run(TierWatcher(hostile.bucket, frozenset()).look())
    for partition in {each.topic_id_partition for each in hostile.segments}:
        own = [each for each in hostile.segments if each.topic_id_partition == partition]
        if all(each in hostile.untouched for each in own):
            assert partition in view.partitions, hostile.what


class ReadOnly:
    """A bucket, for whoever may write as well."""

    def __init__(self, bucket: Bucket) -> None:
        self.read_small = bucket.read_small

    async def write_bytes(self, key: str, content: bytes) -> None:
        raise AssertionError(f"{key} is written")


@SEEDS
def test_an_owner_is_read_or_reported_in_a_line(simulation_seed: int) -> None:
    hostile = hostile_bucket(simulation_seed)
    try:
        said = str(asyncio.run(read_owner(ReadOnly(hostile.bucket))))
    except RemoteStorageError as error:
        said = str(error)
    assert is_plain(said)


@SEEDS
def test_a_scan_reads_the_rest_or_says_in_a_line_why_not(
    simulation_seed: int, tmp_path: Path
) -> None:
    hostile = hostile_bucket(simulation_seed)
    as_files(hostile, tmp_path)
    for topic in ("orders", "payments"):
        own = {each for each in hostile.segments if each.topic_id_partition.topic == topic}
        options = scan_options({"path": f"file://{tmp_path}", "topic": topic})
        said = rows = None
        try:
            rows = sum(
                batch.num_rows for task in plan_scan(options) for batch in read_task(options, task)
            )
        except ScanError as error:
            said = str(error)
        if said is not None:
            assert is_plain(said), (hostile.what, said[:200])
            # Rows that are missing show nowhere in a table: damage in its topic ends a scan.
            assert hostile.key.startswith(f"{topic}-"), (hostile.what, said)
        elif own <= set(hostile.untouched):
            assert rows == sum(each.end_offset - each.start_offset + 1 for each in own)


def as_files(hostile: HostileBucket, directory: Path) -> None:
    for key, content in hostile.bucket.objects.items():
        if "\0" in key or any(len(each.encode()) > 255 for each in key.split("/")):
            continue
        path = directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@SEEDS
async def test_a_broker_fetches_the_rest(simulation_seed: int, tmp_path: Path) -> None:
    hostile = hostile_bucket(simulation_seed)
    as_files(hostile, tmp_path / "tier")
    files = OsFiles()
    (tmp_path / "data").mkdir()
    storage = FsspecStorage(RemoteUrl(f"file://{tmp_path}/tier"), files, ThreadedPool(2, "t"))
    pool = ThreadedPool(1, "test")
    partition = RemotePartition([(0, 0), (3, 14)])
    indexes = RemoteIndexCache(storage, files, str(tmp_path / "data"), 1 << 20, pool)
    chunks = ChunkCache(storage, 1 << 20, 4096)
    reader = RemoteLogReader(indexes, chunks)
    remote = known_of(hostile)[PARTITION]
    await storage.whole_segments(PARTITION)
    for offset in range(30):
        segment = next(
            s
            for s in hostile.segments
            if s.topic_id_partition == PARTITION and s.start_offset <= offset <= s.end_offset
        )
        said = ""
        try:
            await reader.read(partition.request(offset), remote, partition)
        except (KafkaError, RemoteStorageError) as error:
            said = str(error)
        assert is_plain(said) or not said, (hostile.what, said[:200])
        assert not said or segment not in hostile.untouched, (hostile.what, said)
    await chunks.stop()
    await indexes.stop()
    await partition.stop()
    await storage.close()


GIB = 1 << 30
MEMORY_MAX = 600 << 20
"""Far less than the object, and enough for an interpreter with everything that it imports."""

GROWN = ("manifest", "index", "timeindex", "txnindex", "snapshot", "leader_epoch_checkpoint")


def grown(directory: Path, suffix: str, *, is_announced: bool) -> HostileBucket:
    """A tier in which one object has a gibibyte of zeros, which its manifest may say as well."""
    bucket, segments = sound_bucket()
    segment = segments[-1]
    if is_announced:
        key = object_key(segment, "manifest")
        fields = unpacked(bucket.objects[key])
        fields["parts"][suffix] = [GIB, 0]
        bucket.objects[key] = packed(fields)
    hostile = HostileBucket(bucket, segments, object_key(segment, suffix), f"a large {suffix}")
    as_files(hostile, directory)
    os.truncate(directory / hostile.key, GIB)
    return hostile


def run_bounded(*words: str) -> subprocess.CompletedProcess[str]:
    """A command that has no memory for the object."""
    return subprocess.run(
        [sys.executable, "-m", "tierlog.cli", "tier", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".namespace")},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX)),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("is_announced", [False, True])
@pytest.mark.parametrize("suffix", GROWN)
def test_a_gibibyte_where_a_kilobyte_should_be_takes_no_memory(
    suffix: str, is_announced: bool, tmp_path: Path
) -> None:
    hostile = grown(tmp_path / "tier", suffix, is_announced=is_announced and suffix != "manifest")
    place = ("--override", f"rsm.config.url=file://{tmp_path}/tier")
    for words in (("verify",), ("ls", "--segments"), ("rebuild", "--dry-run")):
        done = run_bounded(*words, *place)
        assert "Traceback" not in done.stderr, done.stderr[-2000:]
        assert done.returncode in (0, 1), done.stderr
        if words[0] == "verify":
            assert object_stem(hostile.segments[-1]) in done.stdout


def test_an_owners_file_of_a_gibibyte_takes_no_memory(tmp_path: Path) -> None:
    (tmp_path / OWNER_KEY).touch()
    os.truncate(tmp_path / OWNER_KEY, GIB)
    done = run_bounded("owner", "--override", f"rsm.config.url=file://{tmp_path}")
    assert "Traceback" not in done.stderr
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize("suffix", GROWN)
def test_a_broker_reads_past_an_index_of_a_gibibyte(suffix: str, tmp_path: Path) -> None:
    """Indexes are made again from the batches; without aborted transactions nobody reads."""
    hostile = grown(tmp_path / "tier", suffix, is_announced=False)
    segment = hostile.segments[-1]

    async def story() -> int:
        files = OsFiles()
        (tmp_path / "data").mkdir()
        storage = FsspecStorage(RemoteUrl(f"file://{tmp_path}/tier"), files, ThreadedPool(2, "t"))
        pool = ThreadedPool(1, "test")
        indexes = RemoteIndexCache(storage, files, str(tmp_path / "data"), 1 << 20, pool)
        tracemalloc.start()
        try:
            if suffix == "txnindex":
                with pytest.raises(RemoteStorageError, match="more than"):
                    await indexes.indexes(segment)
            else:
                found = await indexes.indexes(segment)
                assert found.offset_index.size_in_bytes < 1000
            await storage.whole_segments(segment.topic_id_partition)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            await indexes.stop()
            await storage.close()

    assert asyncio.run(story()) < 300 << 20


@SEEDS
def test_a_snapshot_of_the_metadata_is_whole_or_none(simulation_seed: int) -> None:
    """Its checksum is right and its content is not: the topic is read from its beginning then."""
    _, segments = sound_bucket()
    log = remote_log_of(PARTITION, [each for each in segments if each.id == segments[0].id])
    identity = TopicIdentity("cluster", segments[0].topic_id_partition.topic_id)
    content = encode_snapshot(Snapshot(identity, 3, 17, 99, ((PARTITION, log.image()),)))
    hostile, what = hostile_snapshot(simulation_seed, content)
    try:
        snapshot = decode_snapshot(hostile)
    except BadSnapshotError:
        return
    numbers = (snapshot.partition, snapshot.next_offset, snapshot.last_event_crc)
    assert {type(each) for each in numbers} == {int}, what
    for partition, image in snapshot.logs:
        restored = RemoteLog(partition)
        restored.restore(image)
        for each in restored.segments():
            assert each.topic_id_partition == partition, what
            assert restored.segment_for(0, each.start_offset) in (None, each)
            restored.segment_for(0, each.end_offset)
        encode_snapshot(snapshot)
