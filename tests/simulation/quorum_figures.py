"""Runs the stories of quorums seed by seed on all cores, and prints one line of figures.

python -m tierlog.tests.simulation.quorum_figures 0-4999 --workers 2 --minutes 10
"""

import sys
import time
from collections.abc import Sequence

from .quorum_story import Figures, Story, plan_of
from .seed_runs import report

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the line; returns 1 if a story complains."""
    return report("quorum", run_seeds, Figures(), SEEDS_A_TASK, arguments)


if __name__ == "__main__":
    sys.exit(main())
