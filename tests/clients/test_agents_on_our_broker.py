"""Producer, consumer and admin client against a running broker of ours."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.clients.agent_stories import STORIES, Story, run_story


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp("broker")
    with BrokerThread(directory) as broker:
        yield broker.bootstrap


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_agents(story: Story, bootstrap: str) -> None:
    run_story(story, bootstrap)
