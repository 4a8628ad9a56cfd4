"""How large the stories of clusters are, and the seed that each of them prints."""

import random

import pytest

from tierlog.tests.pipeline.spark.clusters.story_size import SEED


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """The story's own chance; its seed is in the output of a test that fails."""
    seed = f"{SEED} {request.node.name}"
    print(f"TIERLOG_SPARK_SEED={SEED}: {request.node.name}")
    return random.Random(seed)
