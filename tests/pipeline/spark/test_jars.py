"""The jars beside Spark's own: in versions that go together, unspoilt, and fetched but once."""

import hashlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tierlog.clients.errors import KafkaError
from tierlog.pipeline.spark.jars import LINES, Jar, jar_paths, jars_of, pyspark_version
from tierlog.tests.house_rules import ROOT


def only_one_is_wanted(
    cache: Path, monkeypatch: pytest.MonkeyPatch, *, sha256: str | None = None
) -> Jar:
    """An empty cache, and the smallest of the jars as the only one; perhaps with another sum."""
    jars = jars_of("kafka", pyspark_version())
    (pool,) = [jar for jar in jars if jar.name == "commons-pool2"]
    pool = pool._replace(sha256=sha256 or pool.sha256)

    def wanted(_kind: str, _version: str) -> tuple[Jar, ...]:
        return (pool,)

    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr("tierlog.pipeline.spark.jars.jars_of", wanted)
    return pool


def newest_allowed_by_the_extra() -> Version:
    """The PySpark that `pip install 'tierlog[spark]'` takes today.

    pip's own dry run would fetch 400 MB: PySpark is published as a source archive only.
    """
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (stated,) = (
        requirement
        for text in extras["optional-dependencies"]["spark"]
        if (requirement := Requirement(text)).name == "pyspark"
    )
    command = [sys.executable, "-m", "pip", "index", "versions", "pyspark"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    (line,) = (each for each in answer.stdout.splitlines() if each.startswith("Available"))
    published = [Version(each.strip()) for each in line.partition(":")[2].split(",")]
    return max(stated.specifier.filter(published))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["kafka", "iceberg", "delta"])
def test_what_pip_brings_with_the_extra_today_has_jars(kind: str) -> None:
    newest = newest_allowed_by_the_extra()
    assert f"{newest.major}.{newest.minor}" == LINES[-1]
    assert jars_of(kind, str(newest))


@pytest.mark.parametrize("kind", ["kafka", "iceberg", "delta"])
def test_a_newer_patch_of_a_spark_line_has_the_jars_of_the_newest_known(kind: str) -> None:
    assert jars_of(kind, "4.1.99") == jars_of(kind, "4.1.3")


def test_the_connector_has_the_version_of_the_installed_pyspark() -> None:
    connector, *others = jars_of("kafka", pyspark_version())
    assert connector.file_name == f"spark-sql-kafka-0-10_2.13-{pyspark_version()}.jar"
    assert {jar.name for jar in others} == {
        "spark-token-provider-kafka-0-10_2.13",
        "kafka-clients",
        "commons-pool2",
    }


@pytest.mark.parametrize("kind", ["kafka", "iceberg", "delta"])
def test_the_error_for_another_spark_names_the_supported_versions(kind: str) -> None:
    remedy = r"PySpark 3\.5\.1, only for 4\.1: pip install 'pyspark~=4\.1\.0'"
    with pytest.raises(KafkaError, match=remedy):
        jars_of(kind, "3.5.1")


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(KafkaError, match="'hudi'; there are kafka, iceberg and delta"):
        jars_of("hudi", pyspark_version())


@pytest.mark.slow
@pytest.mark.requires("java")
def test_a_jar_is_fetched_once_and_is_the_one_that_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = only_one_is_wanted(tmp_path, monkeypatch)
    (path,) = map(Path, jar_paths(["kafka"]))
    assert path.is_relative_to(tmp_path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == pool.sha256
    # Now nothing could be fetched any more.
    monkeypatch.setenv("TIERLOG_IVY_SETTINGS", str(tmp_path / "nowhere.xml"))
    assert jar_paths(["kafka"]) == [str(path)]


@pytest.mark.slow
@pytest.mark.requires("java")
def test_a_jar_that_is_not_to_be_had_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TIERLOG_IVY_SETTINGS", str(tmp_path / "nowhere.xml"))
    with pytest.raises(KafkaError, match=r"did not give delta-spark_4\.1_2\.13-4\.4\.0\.jar"):
        jar_paths(["delta"])


@pytest.mark.slow
@pytest.mark.requires("java")
def test_a_jar_with_another_checksum_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_one_is_wanted(tmp_path, monkeypatch, sha256="0" * 64)
    with pytest.raises(KafkaError, match="a wrong checksum"):
        jar_paths(["kafka"])
    assert not list(tmp_path.rglob("commons-pool2*.jar"))
