"""Runs the stories of quorums seed by seed on all cores, and prints one line of figures.

python -m tierlog.tests.simulation.quorum_figures 0-4999 --workers 2 --minutes 10
"""

import sys
from collections.abc import Sequence

from .quorum_story import Figures, Story, plan_of
from .seed_runs import report, run_until

SEEDS_A_TASK = 10


def run_seeds(seeds: Sequence[int], until_s: float) -> tuple[Figures, str]:
    """Tell the stories of seeds."""
    figures = Figures()
    return figures, run_until(lambda seed: Story(plan_of(seed)), figures, seeds, until_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the line; returns 1 if a story complains."""
    return report("quorum", run_seeds, Figures(), SEEDS_A_TASK, arguments)


if __name__ == "__main__":
    sys.exit(main())
