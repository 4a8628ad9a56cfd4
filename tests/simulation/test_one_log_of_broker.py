"""Cleaner, retention, DeleteRecords and copying at one log, and power cuts: `one_log_story.py`."""

import pytest

from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.simulation.one_log_story import OneLog
from tierlog.tests.simulation.tier_ending import end_well
from tierlog.tests.simulation.tier_story import DEADLY, FAILING, FAIR, Troubles

TROUBLES = Troubles(
    (FAIR, FAIR, FAILING, DEADLY), dies=True, deletes_topics=False, deletes_records=True
)


def run_story(seed: int) -> OneLog:
    stories: list[OneLog] = []

    async def story(loop: SimulatedLoop) -> None:
        running = OneLog(loop, TROUBLES)
        stories.append(running)
        await running.run()
        await end_well(running)

    simulate(story, seed)
    return stories[0]


@pytest.mark.seeds("0-1", long="2-19")
def test_a_record_goes_for_a_reason_whatever_works_at_its_log(simulation_seed: int) -> None:
    assert run_story(simulation_seed).cuts > 0
