"""The status of 1,000 partitions and 200 groups is cheap, and is collected in small steps.

Measured in time of the processor, which other processes of the machine do not lengthen.
"""

import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple

import pytest

from tierlog.bench.harness.requests.admin import create_topic
from tierlog.broker.network.http_message import Response
from tierlog.broker.status.cluster_status import brokers_status, overview_status
from tierlog.broker.status.group_status import GROUPS_MAX, groups_status
from tierlog.broker.status.sources import StatusSources, Steps
from tierlog.broker.status.status_api import answer_steps
from tierlog.broker.status.tier_status import tier_status
from tierlog.broker.status.topic_status import topic_status, topics_status

from ...broker_process import BrokerThread
from .committed_groups import commit
from .status_client import StatusClient

PARTITIONS = 100
LONGEST_STEP_S = 0.005
OVERVIEW_S = 0.1


class Cost(NamedTuple):
    """The processor time of a collection: all of it, and its longest step."""

    total_s: float
    longest_s: float
    nbytes: int


def cost_of(collecting: Generator[None, None, Response]) -> Cost:
    """Collect and encode an answer without pauses."""
    total = longest = 0.0
    while True:
        began = time.thread_time()
        try:
            next(collecting)
        except StopIteration as end:
            return Cost(total, longest, len(end.value.body))
        took = time.thread_time() - began
        total, longest = total + took, max(longest, took)


@pytest.mark.parametrize(
    ("topics", "groups"), [(1, 20), pytest.param(10, 200, marks=pytest.mark.long)]
)
def test_the_status_of_many_partitions_and_groups_is_cheap(
    tmp_path: Path, topics: int, groups: int
) -> None:
    properties = {
        "tierlog.status.port": "0",
        "rsm.config.url": (tmp_path / "remote").as_uri(),
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
    }
    tiered = {"remote.storage.enable": "true"}
    with BrokerThread(tmp_path / "logs", properties) as broker:
        for number in range(topics):
            create_topic(broker.bootstrap, f"topic-{number}", tiered, partitions=PARTITIONS)
        commit(broker.port, [f"group-{number:03d}" for number in range(groups)], "topic-0", 100)
        assert broker.broker is not None
        site = broker.broker.site
        assert site is not None
        sources = site.sources
        assert sources is not None
        collections: dict[str, Callable[[StatusSources], Steps]] = {
            "overview": overview_status,
            "topics": lambda each: topics_status(each, 0),
            "topics/topic-0": lambda each: topic_status(
                each, each.image.topics_by_name["topic-0"], 0
            ),
            "groups": lambda each: groups_status(each, 0),
            "tier": lambda each: tier_status(each, 0),
            "brokers": lambda each: brokers_status(each, 0),
        }

        async def measured(collect: Callable[[StatusSources], Steps]) -> Cost:
            assert sources is not None
            # The best of several: whatever else the interpreter does is not the broker's.
            costs = [cost_of(answer_steps(collect(sources))) for _ in range(5)]
            return min(costs, key=lambda each: each.longest_s)

        async def metrics_measured() -> Cost:
            assert site is not None
            costs = [cost_of(site.metrics_steps()) for _ in range(5)]
            return min(costs, key=lambda each: each.longest_s)

        costs = {name: broker.run(measured(each)) for name, each in collections.items()}
        costs["metrics"] = broker.run(metrics_measured())
        for name, cost in costs.items():
            print(f"{name}: {cost.total_s * 1e3:.1f} ms in all, {cost.longest_s * 1e3:.2f} ms")
            print(f"    the longest step, {cost.nbytes} bytes")
            assert cost.longest_s < LONGEST_STEP_S, (name, cost)
            assert name != "overview" or cost.total_s < OVERVIEW_S
        client = StatusClient(broker.broker.status_url)
        overview = client.get("overview")
        assert overview["partitions"] == topics * PARTITIONS + 3 + 3
        assert overview["groups"] == groups < GROUPS_MAX
        (topic,) = [each for each in client.get("topics")["topics"] if each["name"] == "topic-0"]
        assert (len(topic["groups"]), topic["more_groups"]) == (20, groups - 20)
