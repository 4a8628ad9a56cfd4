"""How large the stories of clusters are, the seed that each prints, and a topic that they share."""

import random
from collections.abc import Iterator
from typing import cast

import pytest

from tierlog.tests.pipeline.spark.clusters.judged_rows import JudgedTopic, consumed_file
from tierlog.tests.pipeline.spark.clusters.story_size import RECORDS, SEED
from tierlog.tests.pipeline.spark.clusters.topic_of_all_kinds import topic_of_all_kinds
from tierlog.tests.pipeline.spark.tiers import TierPlace
from tierlog.tests.tiering.servers.s3 import BUCKET, VersityGateway


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """The story's own chance; its seed is in the output of a test that fails."""
    seed = f"{SEED} {request.node.name}"
    print(f"TIERLOG_SPARK_SEED={SEED}: {request.node.name}")
    return random.Random(seed)


@pytest.fixture(scope="session")
def topic_on_s3(
    s3: VersityGateway, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JudgedTopic]:
    """A topic of all kinds, once for all stories, whose tier is in the bucket."""
    options = cast("dict[str, str]", dict(s3.location.options))
    place = TierPlace(f"s3://{BUCKET}/killed-tier", options)
    directory = tmp_path_factory.mktemp("topic-on-s3")
    with topic_of_all_kinds(directory, "mixed", RECORDS, SEED, place) as topic:
        yield JudgedTopic(topic, consumed_file(topic, directory / "expected.parquet"))
