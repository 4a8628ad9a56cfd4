"""Distributes a tier's segments to Spark tasks with small results.

The driver lists the tier and reads its manifests, some kilobytes per segment. The tasks read the
other objects, on any executor, and return a verdict or sums for their segments, never records. Each
task opens the tier itself.

Spark would wrap a store error of a task in the stack traces of two languages. So the task returns
the error's message as a value, and the driver raises it as one message.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ....clients.errors import ErrorCode, KafkaError
from ....tiering.remote_storage import Failure, RemoteStorageError
from ....tiering.store.manifest import Manifest
from ....tiering.store.remote_url import RemoteUrl
from ....tiering.tools.in_parallel import in_parallel
from ....tiering.tools.opened_tier import opened_tier
from ....tiering.tools.stored_segments import Listing
from ....tiering.tools.terminal import Output
from ....tiering.tools.tier_survey import Survey, TierReader, survey_tier
from ...reading.scan_options import ScanError
from ..arguments.watching import run_watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

TASK_BYTES = 256 * 1024 * 1024
"""About the most bytes that a task reads, unless a single segment has more."""

_TASKS_A_CORE = 4
"""Several tasks per core, so that a slow task does not leave other cores idle."""

_SEGMENTS_AT_ONCE = 2
"""Segments that a task works on at once: one is fetched while another is processed."""

_NAMED_AT_MOST = 10

SegmentWork = Callable[[TierReader, Manifest], Awaitable[T]]
"""The work on one segment. Must be a module-level function, so that Spark can pickle it."""


@dataclass(frozen=True, slots=True)
class _Outcome(Generic[T]):
    """The outcome of a task: its results, or why it failed."""

    results: Sequence[T] = ()
    failure: Failure | None = None
    message: str = ""


class TierSize(NamedTuple):
    """The number and bytes of the segments to read."""

    segments: int
    nbytes: int


def size_of(manifests: Sequence[Manifest]) -> TierSize:
    """The size of these segments, with all their objects."""
    return TierSize(len(manifests), sum(map(_nbytes, manifests)))


async def survey_of(tier: TierReader, where: str, topics: Sequence[str], output: Output) -> Survey:
    """The survey of a tier, only for these topics; for all if none are given.

    Raises:
        KafkaError: UNKNOWN_TOPIC_OR_PARTITION, if there is no tier or no such topic.
        RemoteStorageError: the store does not answer.
    """
    with output.progress("reading manifests") as progress:
        survey = await survey_tier(tier, progress)
    check_topics(survey.listing, where, topics)
    return survey.only(set(topics)) if topics else survey


def check_topics(listing: Listing, where: str, topics: Sequence[str]) -> None:
    """Raise KafkaError(UNKNOWN_TOPIC_OR_PARTITION) if there is no tier or no such topic."""
    names = {segment.topic_id_partition.topic for segment in listing.segments.values()}
    if not names:
        raise _unknown(f"There is no tier at {where}: no segment of any topic is there.")
    for topic in topics:
        if topic not in names:
            shown = ", ".join(sorted(names)[:_NAMED_AT_MOST])
            more = len(names) - _NAMED_AT_MOST
            others = f" and {more} more" if more > 0 else ""
            raise _unknown(f"The tier at {where} holds no topic {topic}; it holds {shown}{others}.")


def dealt(manifests: Sequence[Manifest], cores: int) -> list[list[Manifest]]:
    """The segments divided into tasks of about equal size, in order."""
    share = size_of(manifests).nbytes // max(cores * _TASKS_A_CORE, 1)
    limit = min(max(share, 1), TASK_BYTES)
    tasks: list[list[Manifest]] = []
    room = 0
    for manifest in manifests:
        if room <= 0:
            tasks.append([])
            room = limit
        tasks[-1].append(manifest)
        room -= _nbytes(manifest)
    return tasks


@dataclass(frozen=True, slots=True)
class SegmentJob(Generic[T]):
    """A Spark job that does some work for each segment of a tier."""

    location: RemoteUrl
    work: SegmentWork[T]
    title: str
    fold: Callable[[Sequence[T]], Sequence[T]] | None = None
    """If set, combines the results of each task and then those of all tasks, so that few remain."""

    def run(self, spark: "SparkSession", manifests: Sequence[Manifest], output: Output) -> list[T]:
        """The results, in any order: one for each segment, or the combined ones.

        Raises RemoteStorageError.
        """
        if not manifests:
            return []
        context = spark.sparkContext
        tasks = dealt(manifests, context.defaultParallelism)
        act = partial(_work_through, self.location, self.work, self.fold)
        fold = self.fold

        def action() -> list[_Outcome[T]]:
            outcomes = context.parallelize(tasks, len(tasks)).map(act)
            if fold is None:
                return outcomes.collect()
            return [outcomes.treeReduce(partial(_fold, fold))]

        results: list[T] = []
        for outcome in run_watched(spark, output, self.title, action):
            if outcome.failure is not None:
                raise RemoteStorageError(outcome.message, outcome.failure)
            results.extend(outcome.results)
        return results


def _fold(
    fold: Callable[[Sequence[T]], Sequence[T]], one: _Outcome[T], other: _Outcome[T]
) -> _Outcome[T]:
    """Combine the outcomes of two tasks."""
    for each in (one, other):
        if each.failure is not None:
            return each
    return _Outcome(fold([*one.results, *other.results]))


def _work_through(
    location: RemoteUrl,
    work: SegmentWork[T],
    fold: Callable[[Sequence[T]], Sequence[T]] | None,
    manifests: Sequence[Manifest],
) -> _Outcome[T]:
    """Run one task."""

    async def story() -> list[T]:
        results: list[T] = []
        async with opened_tier(location) as tier:

            async def one(manifest: Manifest) -> None:
                results.append(await work(tier, manifest))
                if fold is not None:
                    results[:] = fold(results)

            await in_parallel(manifests, one, _SEGMENTS_AT_ONCE)
        return results

    try:
        return _Outcome(asyncio.run(story()))
    except RemoteStorageError as error:
        return _Outcome(failure=error.failure, message=str(error))
    except (ScanError, KafkaError) as error:
        return _Outcome(failure=Failure.BROKEN, message=f"{location}: {error}")


def _nbytes(manifest: Manifest) -> int:
    return sum(part.size for part in manifest.parts.values())


def _unknown(message: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
