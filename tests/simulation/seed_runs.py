"""Tells the stories of many seeds on several cores, and prints one line of figures.

A program of stories (`quorum_figures.py`, `cluster_figures.py`) tells its own of some seeds, until
a time or a complaint; here they are shared out, and their figures summed.
"""

import argparse
import gc
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, TypeVar

_TASKS_A_PROCESS = 6
"""Then a process ends: a story of whole clusters leaves up to 40 MB in caches of the modules."""


class SeededStory(Protocol):
    """A story that raises where something is wrong, with notes that say what it was like."""

    def run(self) -> object: ...


StoryT = TypeVar("StoryT", bound=SeededStory)
StoryT_contra = TypeVar("StoryT_contra", bound=SeededStory, contravariant=True)


class SeedFigures(Protocol[StoryT_contra]):
    """What many stories were like."""

    cpu_s: float

    def add(self, story: StoryT_contra, /) -> None:
        """Add those of one story."""
        ...

    def merge(self, other: Self) -> None:
        """Add those of other stories."""
        ...


FiguresT = TypeVar("FiguresT", bound=SeedFigures[Any])
RunSeeds = Callable[[Sequence[int], float], tuple[FiguresT, str]]
"""Tells the stories of seeds until a time; the figures, and a complaint or nothing."""


def run_until(
    story_of: Callable[[int], StoryT],
    figures: SeedFigures[StoryT],
    seeds: Sequence[int],
    until_s: float,
) -> str:
    """Tell the stories of seeds; begin no more after a time, or after one that complains."""
    began_s = time.process_time()
    for seed in seeds:
        if time.time() >= until_s:
            break
        story = story_of(seed)
        try:
            story.run()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return "\n".join((f"seed {seed}: {error!r}", *getattr(error, "__notes__", ())))
        figures.add(story)
        # A story is full of cycles. Left to itself, the collector let 700 of them grow to 5 GB.
        del story
        gc.collect()
        figures.cpu_s = time.process_time() - began_s
    return ""


def run(
    run_seeds: RunSeeds[FiguresT],
    figures: FiguresT,
    tasks: Sequence[Sequence[int]],
    workers: int,
    minutes: float,
) -> list[str]:
    """Add the figures of all seeds that there was time for; returns the complaints."""
    until_s = time.time() + 60 * minutes
    if workers == 1:
        results = [run_seeds(task, until_s) for task in tasks]
    else:
        # Forked: everything is imported already.
        context = multiprocessing.get_context("fork")
        with context.Pool(workers, maxtasksperchild=_TASKS_A_PROCESS) as pool:
            shared = [(task, until_s) for task in tasks]
            results = pool.starmap(run_seeds, shared, chunksize=1)
    for each, _ in results:
        figures.merge(each)
    return [complaint for _, complaint in results if complaint]


def report(
    name: str,
    run_seeds: RunSeeds[FiguresT],
    figures: FiguresT,
    seeds_a_task: int,
    arguments: Sequence[str] | None,
) -> int:
    """Print the line of the seeds that the arguments name; returns 1 if a story complains."""
    parser = argparse.ArgumentParser(description=f"Simulates stories: {name}.")
    parser.add_argument("seeds", help="7, or 0-99")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no further seed then")
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    tasks = [seeds[at : at + seeds_a_task] for at in range(0, len(seeds), seeds_a_task)]
    began = time.monotonic()
    complaints = run(run_seeds, figures, tasks, options.workers, options.minutes)
    for complaint in complaints:
        sys.stderr.write(f"{complaint}\n")
    took = f"{time.monotonic() - began:.0f} s, {figures.cpu_s:.0f} s of processor time"
    violations = f"{len(complaints)} complaints" if complaints else "no violation, no stall"
    sys.stdout.write(f"{name}: {violations} in {took}: {figures}\n")
    return 1 if complaints else 0
