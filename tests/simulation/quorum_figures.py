"""Runs the stories of quorums seed by seed on all cores, and prints one line of figures.

python -m tierlog.tests.simulation.quorum_figures 0-4999 --workers 2 --minutes 10
"""

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from .quorum_story import Figures, Story, plan_of

SEEDS_A_TASK = 10


def run_seeds(seeds: Sequence[int], until_s: float) -> tuple[Figures, str]:
    """Tell the stories of seeds; begin no more after a time, or after one that complains."""
    figures = Figures()
    began_s = time.process_time()
    for seed in seeds:
        if time.time() >= until_s:
            break
        story = Story(plan_of(seed))
        try:
            story.tell()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return figures, "\n".join((f"seed {seed}: {error!r}", *error.__notes__))
        figures.add(story)
        figures.cpu_s = time.process_time() - began_s
    return figures, ""


def run(seeds: Sequence[int], workers: int, minutes: float) -> tuple[Figures, list[str]]:
    """The figures of all seeds that there was time for, and the complaints."""
    until_s = time.time() + 60 * minutes
    tasks = [seeds[at : at + SEEDS_A_TASK] for at in range(0, len(seeds), SEEDS_A_TASK)]
    if workers == 1:
        results = [run_seeds(task, until_s) for task in tasks]
    else:
        with ProcessPoolExecutor(workers) as pool:
            results = list(pool.map(run_seeds, tasks, [until_s] * len(tasks)))
    figures = Figures()
    for each, _ in results:
        figures.merge(each)
    return figures, [complaint for _, complaint in results if complaint]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the line; returns 1 if a story complains."""
    parser = argparse.ArgumentParser(description="Simulates quorums, controllers and brokers.")
    parser.add_argument("seeds", help="7, or 0-99")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no further seed then")
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    began = time.monotonic()
    figures, complaints = run(seeds, options.workers, options.minutes)
    for complaint in complaints:
        sys.stderr.write(f"{complaint}\n")
    took = f"{time.monotonic() - began:.0f} s, {figures.cpu_s:.0f} s of processor time"
    violations = f"{len(complaints)} complaints" if complaints else "no violation, no stall"
    sys.stdout.write(f"quorum: {violations} in {took}: {figures}\n")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
