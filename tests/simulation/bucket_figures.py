"""Tells histories of buckets seed by seed on all cores, and prints one line of figures.

python -m tierlog.tests.simulation.bucket_figures 0-4999 --workers 2 --minutes 15
"""

import logging
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tierlog.tests.simulation.bucket_story import RARE, BucketStory
from tierlog.tests.simulation.bucket_truth import check
from tierlog.tests.simulation.seed_runs import report, run_until

SEEDS_A_TASK = 20


@dataclass(slots=True)
class Figures:
    """What many histories were like."""

    stories: int = 0
    cpu_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter[str])

    def add(self, story: BucketStory) -> None:
        """Add those of one history."""
        self.stories += 1
        self.counts += story.counts

    def merge(self, other: "Figures") -> None:
        """Add those of other histories."""
        self.stories += other.stories
        self.cpu_s += other.cpu_s
        self.counts += other.counts

    @property
    def missing(self) -> list[str]:
        """The rare branches that no history has reached."""
        return [name for name in RARE if not self.counts[name]]

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {self.counts[name]}" for name in RARE)
        return f"{self.stories} seeds; {counts}"


def run_seeds(seeds: Sequence[int], until_s: float) -> tuple[Figures, str]:
    """Tell the histories of seeds."""
    logger = logging.getLogger("tierlog")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    figures = Figures()
    try:
        return figures, run_until(lambda seed: BucketStory(seed, check), figures, seeds, until_s)
    finally:
        logger.setLevel(level)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the line; returns 1 if a history complains."""
    return report("bucket", run_seeds, Figures(), SEEDS_A_TASK, arguments)


if __name__ == "__main__":
    sys.exit(main())
