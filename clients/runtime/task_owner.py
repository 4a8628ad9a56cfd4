"""The owner of background tasks: every task has an owner, and no failure goes unnoticed.

`asyncio.TaskGroup` owns tasks that live within one coroutine. An agent with `start` and `stop` has
no such coroutine, so it uses a `TaskOwner`. The owner keeps references to its tasks (the event loop
has only weak ones), limits their number, and passes each failure to a callback at once; without a
callback it keeps the first failure until `stop` raises it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class TaskOwner:
    """Owns tasks that run until they are done or `stop` is called.

    `on_failure` is called with each exception that ends a task, as soon as it happens.
    """

    def __init__(
        self,
        tasks_max: int,
        on_failure: Callable[[asyncio.Task[object], BaseException], None] | None = None,
    ) -> None:
        self._tasks_max = tasks_max
        self._on_failure = on_failure
        # In the order in which they began, so that a simulation ends them in the same order.
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._first_failure: BaseException | None = None
        self._is_stopped = False

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run `work` as a task. Raises RuntimeError at `tasks_max` tasks or after `stop`."""
        if self._is_stopped or self._is_full():
            work.close()
            reason = "is stopped" if self._is_stopped else f"has {self._tasks_max} tasks already"
            raise RuntimeError(f"The owner {reason}: {name} was not started.")
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._on_done)
        return task

    def _is_full(self) -> bool:
        # Finished tasks do not count, though they leave `_tasks` only in the next iteration of the
        # event loop.
        return (
            len(self._tasks) >= self._tasks_max
            and sum(not task.done() for task in self._tasks) >= self._tasks_max
        )

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        failure = None if task.cancelled() else task.exception()
        if failure is None:
            return
        if self._on_failure is not None:
            self._on_failure(task, failure)
        elif self._first_failure is None:
            self._first_failure = failure

    async def stop(self) -> None:
        """Cancel every task and wait until all have ended.

        Without `on_failure`, raises the first failure of a task. Calling it again does nothing.
        """
        self._is_stopped = True
        while self._tasks:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        failure, self._first_failure = self._first_failure, None
        if failure is not None:
            raise failure
