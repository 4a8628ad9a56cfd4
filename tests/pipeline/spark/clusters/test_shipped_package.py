"""Workers that have no tierlog get it from the driver: a wheel as a .zip, or a whole environment.

Their Python is an environment of its own with the packages that tierlog needs, and without the
network. Spark puts archives on the path of what it runs if their names end in .zip, .egg or .jar;
a wheel is a zip file, and found there under its other name.
"""

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.tests.house_rules import ROOT
from tierlog.tests.pipeline.spark.clusters.driver import CONF
from tierlog.tests.pipeline.spark.folder_tier import TOPIC, Tier
from tierlog.tests.pipeline.spark.spark_cluster import ENVIRONMENT, SparkCluster

pytestmark = [
    pytest.mark.long,
    pytest.mark.requires("java"),
    pytest.mark.timeout(900),
]

NEEDED = ("cramjam<3", "crc32c<3", "fsspec", "msgpack<2", "numpy", "pyarrow")
"""Of tierlog's own dependencies and of the extra `arrow`, what a scan of a folder needs."""
JOB = """
import sys
from pyspark.sql import SparkSession
from tierlog.spark import TierlogDataSource

spark = SparkSession.builder.getOrCreate()
spark.dataSource.register(TierlogDataSource)
rows = spark.read.format("tierlog").options(path={path!r}, topic={topic!r}).load()
offsets = sorted(row.offset for row in rows.select("offset").collect())

def where(_):
    import tierlog
    return [(tierlog.__file__, sys.prefix)]

(found,) = set(spark.sparkContext.parallelize([0], 1).mapPartitions(where).collect())
print("offsets:", offsets[0], offsets[-1], len(offsets), "from:", *found)
"""


def uv(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "uv", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without tierlog, and one that finds none of this checkout."""
    folder = tmp_path_factory.mktemp("workers") / "environment"
    uv("venv", "--relocatable", "--python", sys.executable, str(folder))
    uv("pip", "install", "--python", str(folder / "bin" / "python"), *NEEDED)
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster"), workers=2, cores=1) as running:
        yield running


def submit(
    cluster: SparkCluster, directory: Path, python: str, *words: str
) -> subprocess.CompletedProcess[str]:
    """`spark-submit` of the job; the driver's Python has tierlog, the workers' is another."""
    tier = Tier(directory / "tier")
    for number in range(4):
        tier.bucket.put(number + 1, (number * 10, number * 10 + 9))
    tier.write()
    job = directory / "job.py"
    job.write_text(JOB.format(path=str(tier.directory), topic=TOPIC))
    variables = {
        **{name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
        **ENVIRONMENT,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": python,
    }
    command = Path(sys.executable).with_name("spark-submit")
    return subprocess.run(
        [str(command), "--master", cluster.master, *CONF, *words, str(job)],
        env=variables,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_without_it_the_error_names_the_package(
    cluster: SparkCluster, environment: Path, tmp_path: Path
) -> None:
    done = submit(cluster, tmp_path, str(environment / "bin" / "python"))
    assert done.returncode != 0
    assert "No module named 'tierlog'" in done.stdout + done.stderr


def test_a_wheel_is_shipped_under_the_name_of_a_zip(
    cluster: SparkCluster, environment: Path, wheel: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "tierlog.zip"
    archive.write_bytes(wheel.read_bytes())
    python = str(environment / "bin" / "python")
    done = submit(cluster, tmp_path, python, "--py-files", str(archive))
    assert "offsets: 0 39 40" in done.stdout, done.stdout + done.stderr
    found, prefix = done.stdout.partition("from: ")[2].split()[:2]
    assert "/tierlog.zip/" in found
    assert prefix == str(environment)


def test_an_environment_is_shipped_as_an_archive(
    cluster: SparkCluster, environment: Path, wheel: Path, tmp_path: Path
) -> None:
    uv("pip", "install", "--python", str(environment / "bin" / "python"), "--no-deps", str(wheel))
    archive = tmp_path / "environment.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(environment, ".")
    # Planning runs beside the driver, where executors' archives are not: it has its own.
    (tmp_path / "environment").symlink_to(environment)
    words = ("--archives", f"{archive}#environment")
    done = submit(cluster, tmp_path, "./environment/bin/python", *words)
    assert "offsets: 0 39 40" in done.stdout, done.stdout + done.stderr
    found = done.stdout.partition("from: ")[2].split()[0]
    assert str(cluster.work) in found or "/environment/" in found
