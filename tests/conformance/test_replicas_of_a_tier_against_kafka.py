"""The stories of followers of a tiered partition, told of three brokers of Kafka.

They say offsets, epochs and bounds, so that one story that holds for both kinds is a comparison.
The tier of Kafka is its own `LocalTieredStorage`.
"""

from collections.abc import Iterator

import pytest

from tierlog.tests.scenarios.tiering import replica_stories as stories
from tierlog.tests.scenarios.tiering.many_brokers import ManyBrokers, many_brokers

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.requires("java", "mvn"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManyBrokers]:
    with many_brokers(tmp_path_factory.mktemp("kafka"), "kafka") as brokers:
        yield brokers


@pytest.mark.parametrize(
    "story",
    [stories.new_follower, stories.behind_the_log_start, stories.from_the_last_tiered],
    ids=lambda story: story.__name__,
)
def test_kafka_does_the_same(many: ManyBrokers, story: stories.Story) -> None:
    story(many)
