"""Runs the stories of whole clusters seed by seed on all cores, and prints one line of figures.

python -m tierlog.tests.simulation.cluster_figures 0-1999 --workers 2 --minutes 15
"""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from zlib import crc32

from .cluster_faults import ALL_FAULTS
from .cluster_story import RARE, ClusterStory, plan_of
from .seed_runs import report, run_until

SEEDS_A_TASK = 5


@dataclass(slots=True)
class Figures:
    """What many stories were like."""

    stories: int = 0
    virtual_s: float = 0.0
    slowest_healing_s: float = 0.0
    cpu_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter[str])
    digest: int = 0
    """Of all that clients saw and when; the same for the same stories, in any order."""

    def add(self, story: "ClusterStory") -> None:
        """Add those of one story."""
        self.stories += 1
        self.virtual_s += story.loop.time()
        self.slowest_healing_s = max(self.slowest_healing_s, story.healing_s)
        self.counts += story.counts
        seen = f"{story.loop.time()} {story.counts} {story.promises.acknowledged}"
        self.digest ^= crc32(seen.encode())

    def merge(self, other: "Figures") -> None:
        """Add those of other stories."""
        self.stories += other.stories
        self.virtual_s += other.virtual_s
        self.slowest_healing_s = max(self.slowest_healing_s, other.slowest_healing_s)
        self.cpu_s += other.cpu_s
        self.counts += other.counts
        self.digest ^= other.digest

    @property
    def missing(self) -> list[str]:
        """The rare branches that no story has reached."""
        return [name for name in RARE if not self.counts[name]]

    def __str__(self) -> str:
        faults = ", ".join(f"{name} {self.counts[name]}" for name in ALL_FAULTS)
        never = f" (not: {', '.join(self.missing)})" if self.missing else ""
        return (
            f"{self.stories} seeds, {self.virtual_s:.0f} s of virtual time,"
            f" {self.counts['acknowledged']} records acknowledged, healed within"
            f" {self.slowest_healing_s:.1f} s; faults: {faults};"
            f" {len(RARE) - len(self.missing)} of {len(RARE)} rare branches{never};"
            f" digest {self.digest:08x}"
        )


def run_seeds(seeds: Sequence[int], until_s: float) -> tuple[Figures, str]:
    """Tell the stories of seeds."""
    figures = Figures()
    return figures, run_until(lambda seed: ClusterStory(plan_of(seed)), figures, seeds, until_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the line; returns 1 if a story complains."""
    return report("cluster", run_seeds, Figures(), SEEDS_A_TASK, arguments)


if __name__ == "__main__":
    sys.exit(main())
