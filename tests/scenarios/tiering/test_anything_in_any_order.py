"""Whatever happens to a tiered topic, in any order: what is read is what was written.

A model knows the records and where the log begins. Steps are drawn by chance, and after each the
broker must agree with the model, wherever the records lie at that moment.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tierlog.tests.scenarios.tiering.one_broker import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    PENDING,
    OneBroker,
    numbered,
)
from tierlog.tests.scenarios.tiering.tier_stores import DirectoryTier

pytestmark = pytest.mark.slow

STEPS = 40
TOPIC = "any"


class Story:
    """The broker, the model, and the steps that change both."""

    def __init__(self, broker: OneBroker, seed: int) -> None:
        self.broker = broker
        self.chance = random.Random(seed)
        self.start = 0
        self.end = 0
        self.history: list[str] = []

    def produce(self) -> None:
        count = self.chance.randint(1, 5)
        self.broker.produce(TOPIC, range(self.end, self.end + count))
        self.end += count

    def read(self) -> None:
        if self.start < self.end:
            offset = self.chance.randrange(self.start, self.end)
            expected = numbered(range(offset, self.end))
            assert self.broker.read(TOPIC, offset, len(expected)) == expected

    def delete_records(self) -> None:
        self.start = self.chance.randint(self.start, self.end)
        self.broker.delete_records(TOPIC, self.start)

    def keep_locally(self) -> None:
        kept = self.chance.choice([1, 200, 1_000_000])
        self.broker.alter(TOPIC, local_retention_bytes=kept)

    def cut_otherwise(self) -> None:
        self.broker.alter(TOPIC, segment_index_bytes=12 * self.chance.randint(1, 4))

    def read_only_and_back(self) -> None:
        read_only = {"local_retention_bytes": -2, "local_retention_ms": -2}
        self.broker.alter(TOPIC, remote_log_copy_disable=True, **read_only)
        self.produce()
        self.read()
        self.broker.alter(TOPIC, remote_log_copy_disable=False, local_retention_bytes=1)

    def restart(self) -> None:
        self.chance.choice([self.broker.bounce, self.broker.crash])()

    def begin_anew(self) -> None:
        """The tier's part is given up, and what is here goes there again (KIP-950)."""
        off = {"remote_storage_enable": False, "remote_log_delete_on_disable": True}
        self.broker.alter(TOPIC, local_retention_bytes=-2, **off)
        self.broker.wait_until_empty(TOPIC)
        local = self.broker.offset(TOPIC, EARLIEST_LOCAL)[0]
        assert local >= self.start
        self.start = local
        self.broker.wait_for_start(TOPIC, local)
        self.broker.alter(TOPIC, remote_storage_enable=True, local_retention_bytes=1)

    def check(self) -> None:
        """The bounds that the model knows, and the order of the others."""
        broker = self.broker
        assert broker.offset(TOPIC, EARLIEST)[0] == self.start
        assert broker.offset(TOPIC, LATEST)[0] == self.end
        assert self.start <= broker.offset(TOPIC, EARLIEST_LOCAL)[0] <= self.end
        tiered, pending = (broker.offset(TOPIC, name)[0] for name in (LATEST_TIERED, PENDING))
        assert tiered < self.end
        assert -1 <= pending <= self.end

    def steps(self) -> list[tuple[int, Callable[[], None]]]:
        """Each with how often it comes."""
        return [
            (10, self.produce),
            (6, self.read),
            (2, self.delete_records),
            (2, self.keep_locally),
            (2, self.cut_otherwise),
            (2, self.read_only_and_back),
            (2, self.restart),
            (1, self.begin_anew),
        ]


@pytest.mark.parametrize("seed", range(4))
def test_anything_in_any_order(seed: int, tmp_path: Path, store: DirectoryTier) -> None:
    with OneBroker(tmp_path, store) as broker:
        broker.create(TOPIC, per_segment=2)
        story = Story(broker, seed)
        weights, steps = zip(*story.steps(), strict=True)
        for _ in range(STEPS):
            (step,) = story.chance.choices(steps, weights)
            story.history.append(step.__name__)
            try:
                step()
                story.check()
            except BaseException as error:
                error.add_note(f"seed {seed}, after {story.history}")
                raise
        story.produce()
        if story.start < story.end:
            everything = numbered(range(story.start, story.end))
            assert broker.read(TOPIC, story.start, len(everything)) == everything
