"""A tiered broker under crashes and faults of its object store: `tier_story.py`, seed by seed.

`make simulate SEED=0-499` runs five hundred of them, a usual run the first few. A quarter of the
seeds only copies, expires and dies; one deletes records as well, one deletes the topic and makes it
again, one does all of it.
"""

import pytest

from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.simulation.object_store import Fault
from tierlog.tests.simulation.tier_ending import end_well
from tierlog.tests.simulation.tier_story import ALL_WEATHERS, Story, Troubles

SEEDS_AT_MOST = 40


def troubles_of(seed: int) -> Troubles:
    return Troubles(
        ALL_WEATHERS, dies=True, deletes_topics=seed % 4 >= 2, deletes_records=seed % 2 == 1
    )


def run_story(seed: int) -> Story:
    stories: list[Story] = []

    async def story(loop: SimulatedLoop) -> None:
        running = Story(loop, troubles_of(seed))
        stories.append(running)
        await running.run()
        await end_well(running)

    simulate(story, seed)
    return stories[0]


@pytest.mark.seeds("0-14", long="15-99")
def test_nothing_is_lost_and_nothing_is_left_whatever_fails(simulation_seed: int) -> None:
    run_story(simulation_seed)


def test_one_seed_is_one_story() -> None:
    def trace(seed: int) -> list[object]:
        story = run_story(seed)
        return [*story.store.journal, story.broker.disk.operations, story.loop.time()]

    assert trace(3) == trace(3)


def test_the_stories_meet_what_they_are_about() -> None:
    """Every fault there is, in as many stories as it takes: which seed meets which may change."""
    wanted = {fault.name for fault in Fault if fault is not Fault.NONE} | {"put", "remove"}
    missing = set(wanted)
    for seed in range(SEEDS_AT_MOST):
        missing -= {word for _, what, _ in run_story(seed).store.journal for word in what.split()}
        if not missing:
            return
    raise AssertionError(f"{SEEDS_AT_MOST} stories without {missing}")
