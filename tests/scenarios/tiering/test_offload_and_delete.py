"""Segments go to the tier, are read from there, and are deleted there (scenarios 2.1 to 2.9)."""

from pathlib import Path

import pytest

from tierlog.tests.scenarios.tiering.one_broker import (
    OneBroker,
)
from tierlog.tests.scenarios.tiering.tier_stores import TierStore

pytestmark = pytest.mark.slow


@pytest.mark.scenario("2.1")
def test_offload_and_consume_from_the_leader(tmp_path: Path, each_store: TierStore) -> None:
    with OneBroker(tmp_path, each_store) as broker:
        broker.create("topicA", per_segment=1)
        broker.produce("topicA", range(3))
        broker.wait_for_segments("topicA", {0: [0], 1: [1]})
        broker.wait_for_local("topicA", 2)
        broker.create("topicB", per_segment=2)
        broker.produce("topicB", range(5))
        broker.wait_for_segments("topicB", {0: [0, 1], 2: [2, 3]})
        broker.wait_for_local("topicB", 4)
        assert broker.count("RemoteCopyRequestsPerSec", "topicA") == 2
        assert broker.count("RemoteCopyRequestsPerSec", "topicB") == 2
        broker.bounce()
        broker.consume("topicA", 1, 2, tier=1, fetches=1)
        broker.consume("topicB", 1, 4, tier=3, fetches=2)
        assert broker.count("RemoteCopyRequestsPerSec", "topicA") == 0
