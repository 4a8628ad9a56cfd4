"""Replicas join, lag, stop and restart, and messages about it are lost or late, at random.

At every step each member of the controller's ISR holds all records below the high watermark, so any
of them can be elected. In the end, when everything is heard, all replicas are in the ISR again and
the high watermark is at the end of the log.
"""

import asyncio

from hypothesis import example, given, settings, strategies as st

from tierlog.tests.simulation.loop import SimulatedLoop, simulate

from .isr_walk import IsrWalk
from .three_replicas import SECOND, THIRD, one_leader

STEPS = (
    "append",
    "fetch",
    "fetch",
    "fetch",
    "lose a fetch",
    "wait",
    "shrink",
    "decide",
    "decide",
    "hear",
    "lose the answer",
    "publish",
    "fence",
    "unfence",
    "restart",
)
Step = tuple[str, int, int]
STEP = st.tuples(st.sampled_from(STEPS), st.sampled_from((SECOND, THIRD)), st.integers(0, 3))


async def take(walk: IsrWalk, step: Step) -> None:
    kind, broker_id, count = step
    match kind:
        case "append":
            walk.leader.append(b"a", acks=1)
        case "fetch" | "lose a fetch":
            walk.fetch(broker_id, is_lost=kind == "lose a fetch")
        case "wait":
            # The lag that is allowed is 30 seconds.
            await asyncio.sleep(10 * (count + 1))
        case "shrink":
            walk.shrink()
        case "decide":
            walk.decide()
        case "hear" | "lose the answer":
            walk.hear(is_lost=kind == "lose the answer")
        case "publish":
            walk.publish()
        case "fence":
            walk.fence(broker_id)
        case "unfence":
            walk.unfence(broker_id)
        case _:
            walk.restart(broker_id, count)


async def settle(walk: IsrWalk) -> None:
    """Everything is heard, and the followers fetch for a while."""
    for broker_id in (SECOND, THIRD):
        walk.unfence(broker_id)
    for _ in range(8):
        walk.publish()
        for broker_id in (SECOND, THIRD):
            walk.fetch(broker_id, is_lost=False)
        walk.decide()
        walk.hear(is_lost=False)
    walk.publish()
    assert set(walk.truth.isr) == {1, 2, 3}
    assert not walk.partition.isr_state.is_pending
    assert walk.leader.high_watermark == walk.partition.log.log_end_offset


LATE_ANSWER: list[Step] = [
    ("restart", THIRD, 0),
    ("publish", SECOND, 0),
    ("fetch", THIRD, 0),
    ("decide", SECOND, 0),
    ("restart", SECOND, 0),
    ("publish", SECOND, 0),
    ("fetch", SECOND, 0),
    ("hear", SECOND, 0),
]
"""The answer comes when metadata has been ahead of it, and another replica is to join already."""


@settings(max_examples=150)
@example(LATE_ANSWER)
@given(st.lists(STEP, max_size=40))
def test_whoever_may_be_elected_holds_what_was_acknowledged(steps: list[Step]) -> None:
    async def story(loop: SimulatedLoop) -> None:
        async with one_leader(loop) as leader:
            walk = IsrWalk(leader)
            for step in steps:
                before = leader.high_watermark
                await take(walk, step)
                walk.check(before)
            await settle(walk)

    simulate(story)
