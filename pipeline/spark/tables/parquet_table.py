"""A folder of Parquet files as the target of an export.

    topic=orders/date=2026-11-22/part-….parquet     visible to readers
    _tierlog/commits/00000000000000000005.json      the files of each commit, and the offsets
    _tierlog/staging/…                              files being written

Rows are first written to a hidden folder (Spark and similar readers skip names that begin with an
underscore). The manifest of a commit names the files to add and to remove. Publishing the manifest
under the commit's number, which succeeds only once, is the commit. Then the files are moved to
where readers see them. If a job is killed in between, the commit is still valid: the next job first
repeats the moves of the last manifest, and repeating them is harmless.

So a kill never makes a reader see a record twice. While a compaction moves its files, readers may
miss records of the compacted days; if it is killed then, they miss them until the next job.

The file system must rename atomically, or create a file only if there is none: HDFS, a local one
with hard links, S3 with conditional writes. In S3 a move is a copy on the server and a deletion: a
reader may find a file a moment after another of the same commit, as with the renames, and each of
them whole. Google's file system for Hadoop has neither, so it is refused.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from ....clients.errors import KafkaError
from ....clients.kafka_uuid import uuid_to_string
from ....clients.runtime.environment import SystemEnvironment
from ..known_jars import GCS, kind_of_url
from .export_state import (
    NOTHING,
    PARTITIONED_BY,
    Compaction,
    Exported,
    ExportError,
    commit_conflict,
    exported_from_json,
    refusal,
)
from .hadoop_files import HadoopFiles, StoredFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ....clients.topic_partition import TopicPartition
    from ...reading.scan_bounds import OffsetRange

_COMMITS = "_tierlog/commits"
_STAGING = "_tierlog/staging"
_COMMITS_KEPT = 100


class ParquetTable:
    """A Parquet folder; `name` is a path or URL that Spark can write."""

    def __init__(self, spark: "SparkSession", name: str) -> None:
        if kind_of_url(name) == GCS:
            raise refusal(
                f"Parquet files cannot be exported to {name}, because Google's file system for "
                "Hadoop cannot commit them atomically: use Iceberg or Delta."
            )
        self.name = name
        self._spark = spark
        self._files = HadoopFiles(spark, name)
        self._run = uuid_to_string(SystemEnvironment().random_uuid())

    def state(self) -> Exported | None:
        newest = self._newest()
        if newest is None:
            if self._files.below(""):
                raise ExportError(
                    f"{self.name} has files but no manifest of an export: they were not written "
                    "by an export."
                )
            return NOTHING if self._files.exists(_COMMITS) else None
        manifest = self._manifest(newest)
        self._move_files(manifest)
        return exported_from_json(json.dumps(manifest["exported"]), self.name)

    def create(self, *, is_upsert: bool = False) -> None:
        if is_upsert:
            raise self._append_only()
        self._files.make_folder(_COMMITS)

    def add_columns(self, rows: "DataFrame") -> "DataFrame":
        """Change nothing: each file has its own columns, which readers join with `mergeSchema`."""
        return rows

    def append(self, rows: "DataFrame", after: Exported) -> None:
        staged = f"{_STAGING}/{after.sequence}-{self._run}"
        self._files.remove(staged)
        rows.write.partitionBy(*PARTITIONED_BY).parquet(self._files.url(staged))
        self._commit(after, staged, removed=())

    def delete(self, ranges: "Mapping[TopicPartition, OffsetRange]", after: Exported) -> None:
        del ranges, after
        raise self._append_only()

    def upsert(self, rows: "DataFrame", after: Exported) -> None:
        del rows, after
        raise self._append_only()

    def _append_only(self) -> KafkaError:
        return refusal(f"{self.name} is of Parquet files, and append only: use Iceberg or Delta.")

    def compact(self, small_bytes: int, *, dry_run: bool) -> Compaction:
        state = self.state()
        small = _small_files(self._files.below(""), small_bytes)
        before = [file for files in small.values() for file in files]
        if dry_run or state is None or not before:
            return Compaction(len(before), 0)
        after = state.after({}, {}, {})
        staged = f"{_STAGING}/{after.sequence}-{self._run}"
        self._files.remove(staged)
        for folder, files in small.items():
            nbytes = sum(file.nbytes for file in files)
            # The folder's name has the other columns; some files may lack those added later.
            rows = (
                self._spark.read.option("mergeSchema", "true")
                .parquet(*(self._files.url(file.path) for file in files))
                .drop(*PARTITIONED_BY)
            )
            (
                rows.coalesce(1 + nbytes // (4 * small_bytes))
                .sortWithinPartitions("partition", "offset")
                .write.parquet(self._files.url(f"{staged}/{folder}"))
            )
        self._commit(after, staged, removed=[file.path for file in before])
        return Compaction(len(before), len(self._manifest(after.sequence)["added"]))

    def _commit(self, after: Exported, staged: str, removed: Sequence[str]) -> None:
        if (self._newest() or 0) != after.sequence - 1:
            # Old manifests are removed, so the number alone may be free again.
            self._files.remove(staged)
            raise commit_conflict(self.name, after.sequence)
        written = self._files.below(staged)
        manifest = {
            "exported": json.loads(after.to_json()),
            "staged": staged,
            "added": [file.path[len(staged) + 1 :] for file in written],
            "removed": list(removed),
        }
        unpublished = f"{_STAGING}/{after.sequence}-{self._run}.json"
        self._files.remove(unpublished)
        self._files.create(unpublished, json.dumps(manifest, indent=1))
        is_published = self._files.publish(unpublished, _commit_path(after.sequence))
        if not is_published and str(self._manifest(after.sequence)["staged"]) != staged:
            self._files.remove(staged)
            raise commit_conflict(self.name, after.sequence)
        self._move_files(self._manifest(after.sequence))
        self._remove_leftovers(after.sequence)

    def _move_files(self, manifest: Mapping[str, list[str]]) -> None:
        """Remove and move the files that the manifest lists, except those done already."""
        staged = str(manifest["staged"])
        for path in manifest["removed"]:
            self._files.remove(path)
        if not self._files.exists(staged):
            return
        waiting = {file.path[len(staged) + 1 :] for file in self._files.below(staged)}
        for path in manifest["added"]:
            if path in waiting:
                self._files.make_folder(path.rpartition("/")[0])
                self._files.rename(f"{staged}/{path}", path)
        self._files.remove(staged)

    def _remove_leftovers(self, sequence: int) -> None:
        """Remove what killed jobs staged for commits up to this one, and old manifests."""
        for name in self._files.names(_STAGING):
            if int(name.partition("-")[0]) <= sequence:
                self._files.remove(f"{_STAGING}/{name}")
        for name in self._files.names(_COMMITS)[:-_COMMITS_KEPT]:
            self._files.remove(f"{_COMMITS}/{name}")

    def _newest(self) -> int | None:
        names = [name for name in self._files.names(_COMMITS) if name.endswith(".json")]
        return int(names[-1].removesuffix(".json")) if names else None

    def _manifest(self, sequence: int) -> Mapping[str, list[str]]:
        text = self._files.read(_commit_path(sequence))
        return cast("dict[str, list[str]]", json.loads(text))


def _commit_path(sequence: int) -> str:
    return f"{_COMMITS}/{sequence:020}.json"


def _small_files(files: Sequence[StoredFile], small_bytes: int) -> dict[str, list[StoredFile]]:
    """The small files of each folder that has more than one small file."""
    by_folder: defaultdict[str, list[StoredFile]] = defaultdict(list)
    for file in files:
        if file.nbytes < small_bytes and file.path.endswith(".parquet"):
            by_folder[file.path.rpartition("/")[0]].append(file)
    return {folder: several for folder, several in by_folder.items() if len(several) > 1}
