"""Producer, consumer and admin client against a real Apache Kafka."""

from collections.abc import Iterator

import pytest

from tierlog.bench.harness.processes.kafka_peer import KafkaNode
from tierlog.tests.clients.agent_stories import STORIES, Story, run_story

pytestmark = pytest.mark.requires("java", "mvn")


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with KafkaNode(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka.bootstrap


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_agents(story: Story, bootstrap: str) -> None:
    run_story(story, bootstrap)
