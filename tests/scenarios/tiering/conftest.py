"""The tiers that scenarios run on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.tests.scenarios.tiering.tier_stores import STORES, DirectoryTier, TierStore


@pytest.fixture(params=sorted(STORES))
def each_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TierStore]:
    """A directory, and a bucket of a real object store."""
    with STORES[str(request.param)](tmp_path) as store:
        yield store


@pytest.fixture
def store(tmp_path: Path) -> DirectoryTier:
    """A directory."""
    return DirectoryTier(tmp_path)
