"""docs/lakehouse.md word by word, but with folders for the bucket and a second for the minute."""

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tierlog.pipeline.spark.store_settings import store_settings
from tierlog.tests.house_rules import ROOT
from tierlog.tests.tiering.tools.bucket import Bucket
from tierlog.tiering.store.remote_url import remote_url

pytestmark = [pytest.mark.long, pytest.mark.requires("java")]

PAGE = (ROOT / "docs" / "lakehouse.md").read_text()
COMMANDS = re.findall(r"^    (tierlog-spark .+)$", PAGE, re.MULTILINE)
PROGRAM, STORE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
END_TIMEOUT_S = 240


def here(text: str, directory: Path) -> str:
    """What the page says, for a bucket that is a folder."""
    text = text.replace("s3://my-bucket", str(directory)).replace("s3a://my-bucket", str(directory))
    return text.replace("--every 1m", "--every 1s").replace('("iceberg", "s3")', '("iceberg",)')


def words_of(command: str, directory: Path) -> list[str]:
    program, *words = shlex.split(here(command, directory))
    assert program == "tierlog-spark"
    return [sys.executable, "-m", "tierlog.pipeline.spark", *words]


def printed_by(words: list[str], directory: Path) -> str:
    return subprocess.run(
        words,
        check=True,
        timeout=END_TIMEOUT_S,
        stdout=subprocess.PIPE,
        text=True,
        cwd=directory,
    ).stdout


@pytest.mark.timeout(4 * END_TIMEOUT_S)
def test_a_bucket_becomes_a_table_that_follows_the_topic(tmp_path: Path) -> None:
    look, follow = COMMANDS
    bucket = Bucket()
    bucket.put(1, (0, 99))
    bucket.write_to(tmp_path / "tier")
    assert "dry run: 100 offsets would be exported" in printed_by(
        words_of(look, tmp_path), tmp_path
    )
    assert not (tmp_path / "lake").exists()

    command = words_of(follow, tmp_path)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as job:
        assert job.stdout is not None
        for line in job.stdout:
            if line.startswith("orders: 100 offsets"):
                bucket.put(2, (100, 149))
                bucket.write_to(tmp_path / "tier")
            if line.startswith("orders: 50 offsets"):
                job.send_signal(signal.SIGTERM)
                break
        *_, last = job.stdout.read().splitlines()
        assert job.wait(END_TIMEOUT_S) == 0
    assert last.split()[:4] == ["orders", "lake.shop.orders", "0:", "150"]
    assert ">lake.shop.orders</td>" in (tmp_path / "lake.html").read_text()

    table = printed_by([sys.executable, "-c", here(PROGRAM, tmp_path)], tmp_path)
    assert re.search(r"\|1970-01-01\| +0\| +150\| +149\|", table), table


def test_a_query_of_a_store_elsewhere_has_the_settings_that_the_job_takes_from_the_tier() -> None:
    written = dict(re.findall(r'"spark\.hadoop\.fs\.s3a\.(.+)": "(.+)"', STORE))
    tier = remote_url({"url": "s3://tier", "option.endpoint_url": written["endpoint"]})
    bucket = "fs.s3a.bucket.my-bucket."
    taken = store_settings(tier, "s3a://my-bucket/lake", ())
    assert written == {
        name.removeprefix(bucket): value
        for name, value in taken.items()
        if "credentials" not in name
    }
