"""Runs a Spark action and shows its progress.

The action runs in its own thread and job group, while this thread polls Spark for the number of the
group's finished tasks. Ctrl-C cancels the group, so that the cluster does not go on with its jobs.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from ....clients.kafka_uuid import uuid_to_string
from ....clients.runtime.environment import SystemEnvironment
from ....tiering.blocking_pool import ThreadedPool
from ....tiering.tools.terminal import Output

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

T = TypeVar("T")

_ASK_EVERY_S = 0.2


def run_watched(spark: "SparkSession", output: Output, what: str, action: Callable[[], T]) -> T:
    """Run the action and show its progress. Raises the action's own errors."""
    return asyncio.run(_watch(spark.sparkContext, output, what, action))


async def _watch(context: "SparkContext", output: Output, what: str, action: Callable[[], T]) -> T:
    group = f"tierlog-{uuid_to_string(SystemEnvironment().random_uuid())}"
    pool = ThreadedPool(1, "spark-action")

    def act() -> T:
        context.setJobGroup(group, what, interruptOnCancel=True)
        return action()

    try:
        with output.progress(what) as progress:
            async with asyncio.TaskGroup() as owner:
                running = owner.create_task(pool.run(act))
                while not running.done():
                    await asyncio.wait([running], timeout=_ASK_EVERY_S)
                    progress(*_tasks_of(context, group))
            return running.result()
    except asyncio.CancelledError:
        context.cancelJobGroup(group)
        raise
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        pool.stop()


def _tasks_of(context: "SparkContext", group: str) -> tuple[int, int]:
    """The numbers of finished tasks and of all tasks in the stages planned so far."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(group)]
    stages: set[int] = set()
    for job in jobs:
        if job is not None:
            # Job id, stage ids and status; PySpark does not type the tuple.
            _, stage_ids, _ = cast("tuple[int, list[int], str]", job)
            stages.update(stage_ids)
    infos = [info for stage in sorted(stages) if (info := tracker.getStageInfo(stage)) is not None]
    return sum(stage.numCompletedTasks for stage in infos), sum(stage.numTasks for stage in infos)
