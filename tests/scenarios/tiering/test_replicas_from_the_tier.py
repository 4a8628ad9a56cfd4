"""KIP-405's scenarios of followers on three brokers of ours. The first one is told in every run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from . import replica_stories as stories
from .many_brokers import ManyBrokers, many_brokers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def many(tmp_path: Path) -> Iterator[ManyBrokers]:
    """Brokers for one story: it kills some, and a second try must find no topic of the first."""
    with many_brokers(tmp_path) as brokers:
        yield brokers


@pytest.mark.scenario("3.1")
def test_a_new_empty_follower_begins_after_what_is_in_the_tier_only(many: ManyBrokers) -> None:
    stories.new_follower(many)


@pytest.mark.long
@pytest.mark.parametrize(
    "story",
    [
        pytest.param(stories.follower_not_far_behind, marks=pytest.mark.scenario("3.2")),
        pytest.param(stories.follower_far_behind, marks=pytest.mark.scenario("3.2")),
        pytest.param(stories.hard_failures, marks=pytest.mark.scenario("3.3")),
        pytest.param(stories.unclean_election, marks=pytest.mark.scenario("3.4")),
        pytest.param(stories.divergence_in_the_tier, marks=pytest.mark.scenario("3.5")),
        pytest.param(stories.copying_begins_again, marks=pytest.mark.scenario("3.6")),
        pytest.param(stories.behind_the_local_start, marks=pytest.mark.scenario("5.1")),
        pytest.param(stories.behind_the_log_start, marks=pytest.mark.scenario("5.2")),
        pytest.param(stories.state_out_of_reach, marks=pytest.mark.scenario("5.4")),
        pytest.param(stories.gaps_between_epochs, marks=pytest.mark.scenario("5.5")),
        pytest.param(stories.moved_between_directories, marks=pytest.mark.scenario("5.7")),
        pytest.param(stories.from_the_last_tiered, marks=pytest.mark.scenario("5")),
    ],
    ids=lambda story: story.__name__,
)
def test_the_scenario_on_three_brokers(many: ManyBrokers, story: stories.Story) -> None:
    story(many)
