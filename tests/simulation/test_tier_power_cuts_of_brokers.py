"""A tiered broker that loses its power with Kafka's flush settings: `tier_power_cuts.py`."""

from functools import cache

import pytest

from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.simulation.tier_ending import end_well
from tierlog.tests.simulation.tier_power_cuts import PowerCuts
from tierlog.tests.simulation.tier_story import DEADLY, FAILING, FAIR, Troubles

FOUND_SOMETHING = (124, 475)
"""Seeds of stories that once ended badly, or without a loss of power."""


@cache
def cuts_in(seed: int) -> int:
    """Tell a story; how often its power went."""
    stories: list[PowerCuts] = []
    troubles = Troubles(
        (FAIR, FAIR, FAILING, DEADLY),
        dies=True,
        deletes_topics=seed % 4 == 2,
        deletes_records=seed % 4 == 3,
    )

    async def story(loop: SimulatedLoop) -> None:
        running = PowerCuts(loop, troubles)
        stories.append(running)
        await running.run()
        await end_well(running)

    simulate(story, seed)
    return stories[0].cuts


@pytest.mark.seeds("0-4", long="5-44")
def test_what_was_safe_stays_readable_whenever_the_power_goes(simulation_seed: int) -> None:
    assert cuts_in(simulation_seed) > 0


@pytest.mark.parametrize("seed", FOUND_SOMETHING)
def test_what_a_seed_has_found_stays_mended(seed: int) -> None:
    assert cuts_in(seed) > 0


def test_the_power_goes_often() -> None:
    assert sum(cuts_in(seed) for seed in range(3)) >= 20
