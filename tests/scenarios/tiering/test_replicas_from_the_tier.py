"""KIP-405's scenarios of followers, on three brokers that share a tier.

Records are numbered by their offsets; a leader epoch is as in the scenario, where it says one.
"""

from collections.abc import Iterator

import pytest

from .many_brokers import A, B, Bounds, C, ManyBrokers, many_brokers
from .one_broker import numbered

pytestmark = pytest.mark.slow

BATCH_BYTES = 72
"""A record of these stories is a batch of so many bytes."""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManyBrokers]:
    with many_brokers(tmp_path_factory.mktemp("many")) as brokers:
        yield brokers


@pytest.mark.scenario("3.1")
def test_a_new_empty_follower_begins_after_what_is_in_the_tier_only(many: ManyBrokers) -> None:
    """Scenario 1: epochs 0, 1, 2, 3 begin at 0, 3, 5, 7; 0 to 2 are in the tier only."""
    # Of two closed segments, the newer one stays on the disk.
    kept = BATCH_BYTES * 7 // 2
    many.create("new", [C, A], per_segment=3, local_retention_bytes=kept)
    for number, (leader, records) in enumerate(
        [(C, range(3)), (A, range(3, 5)), (C, range(5, 7)), (A, range(7, 8))]
    ):
        if number:
            many.lead("new", leader)
        many[leader].produce("new", records, enable_idempotence=True)
    many.wait_for_tier("new", [0, 3])
    many.wait_for_local("new", 3, A, C)
    # Nobody but a leader copies, and each segment is there once.
    epochs = {0: 0, 1: 3, 2: 5, 3: 7}
    assert many[A].epochs("new") == epochs

    many.assign("new", [A, C, B])
    many.wait_until_same("new", A, B, C)
    assert many[B].states_built("new") >= 1
    assert many[B].local_starts("new")[0] == 3
    assert many[B].epochs("new") == epochs
    assert many[B].state_at("new", 3) == many[A].state_at("new", 3)

    many.lead("new", B)
    assert many[B].read("new", 0, 8) == numbered(range(8))
    assert many[B].bounds("new") == Bounds(0, 3, 8)
    assert many.tier_starts("new") == [0, 3]
