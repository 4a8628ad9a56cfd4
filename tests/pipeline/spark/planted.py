"""A tier with faults in it that a test has planted, and what the audit says of it.

The tier is made in memory (`tests/tiering/tools/bucket.py`), damaged there, and stored where the
test wants it. Each audit is compared with `tierlog tier verify` of the same tier: two readers with
one set of rules must find the same.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import pytest

from tierlog.cli.command_line import run as run_tierlog
from tierlog.pipeline.spark.__main__ import main as run_tierlog_spark
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tests.pipeline.spark.tiers import TierPlace
from tierlog.tests.tiering.servers.server import located
from tierlog.tests.tiering.tools.bucket import Bucket
from tierlog.tiering.tools.opened_tier import opened_tier

HISTORY = ((0, 0), (2, 13))


class Planted(NamedTuple):
    """Three segments of one partition, of two leaders."""

    bucket: Bucket
    segments: tuple[RemoteLogSegmentMetadata, ...]


def planted() -> Planted:
    """A tier that is sound as yet."""
    bucket = Bucket()
    ranges = ((0, 9), (10, 29), (30, 44))
    segments = [bucket.put(number, each, HISTORY) for number, each in enumerate(ranges, 1)]
    return Planted(bucket, tuple(segments))


def store(bucket: Bucket, place: TierPlace) -> None:
    """Put all objects of a bucket there, and remove what else there is."""

    async def story() -> None:
        async with opened_tier(located(place.properties)) as tier:
            for key, content in bucket.objects.items():
                await tier.write_bytes(key, content)
            others = [each.key for each in await tier.list() if each.key not in bucket.objects]
            await tier.remove_all(others)

    asyncio.run(story())


class Audit(NamedTuple):
    """What an audit has said."""

    code: int
    lines: Sequence[Mapping[str, Any]]

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        """The lines of one type."""
        return [line for line in self.lines if line["type"] == kind]

    @property
    def findings(self) -> list[Mapping[str, Any]]:
        return self.of("finding")

    def finding(self, key: str) -> Mapping[str, Any]:
        """The one finding about an object."""
        (found,) = [each for each in self.findings if each["key"] == key]
        return found


def audit(place: TierPlace, capsys: pytest.CaptureFixture[str], *words: str) -> Audit:
    """Run the job as its users do, on the session of the tests."""
    capsys.readouterr()
    code = run_tierlog_spark(["audit", *place.arguments, "--json", *words])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return Audit(code, lines)


def verified(place: TierPlace, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `tierlog tier verify` says of the same tier."""
    capsys.readouterr()
    words = [f"{name}={value}" for name, value in place.properties.items()]
    overrides = [word for each in words for word in ("--override", each)]
    code = run_tierlog(["tier", "verify", "--json", *overrides], 0)
    said = cast("dict[str, Any]", json.loads(capsys.readouterr().out))
    assert code == (0 if said["sound"] else 1)
    return said


def audit_of(bucket: Bucket, place: TierPlace, capsys: pytest.CaptureFixture[str]) -> Audit:
    """Store a tier and audit it; what verify says must be the same."""
    store(bucket, place)
    found = audit(place, capsys)
    said = verified(place, capsys)
    findings = [{name: line[name] for name in line if name != "type"} for line in found.findings]
    assert sorted(findings, key=str) == sorted(said["findings"], key=str)
    (summary,) = found.of("summary")
    assert (summary["sound"], summary["segments"]) == (said["sound"], said["segments"])
    assert found.code == (0 if said["sound"] else 1)
    return found
