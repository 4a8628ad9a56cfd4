"""A tier that tests write into a folder, and scans of it without Spark."""

from pathlib import Path
from typing import Any, cast

from tierlog.pipeline.reading.scan import plan_scan, read_task
from tierlog.pipeline.reading.scan_options import scan_options
from tierlog.pipeline.reading.scan_task import ScanTask
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tests.tiering.tools.bucket import Bucket

TOPIC = PARTITION.topic


class Tier:
    """A tier in a folder, and scans of it."""

    def __init__(self, directory: Path) -> None:
        self.bucket = Bucket()
        self.directory = directory

    def options(self, **options: str) -> dict[str, str]:
        return {"path": str(self.directory), "topic": TOPIC, **options}

    def write(self) -> None:
        """Let the folder hold what the bucket does."""
        self.bucket.write_to(self.directory)

    def plan(self, **options: str) -> list[ScanTask]:
        self.write()
        return plan_scan(scan_options(self.options(**options)))

    def rows(self, **options: str) -> list[dict[str, Any]]:
        tasks = self.plan(**options)
        stated = scan_options(self.options(**options))
        return [
            cast("dict[str, Any]", row)
            for task in tasks
            for batch in read_task(stated, task)
            for row in cast("Any", batch).to_pylist()
        ]

    def offsets(self, **options: str) -> list[int]:
        return [row["offset"] for row in self.rows(**options)]
