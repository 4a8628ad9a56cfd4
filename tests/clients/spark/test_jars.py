"""The jars beside Spark's own: in versions that go together, unspoilt, and fetched but once."""

import hashlib
from pathlib import Path

import pytest

from tierlog.clients.errors import KafkaError
from tierlog.clients.spark.jars import Jar, jar_paths, jars_of, pyspark_version


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
    monkeypatch.setattr("tierlog.clients.spark.jars.jars_of", wanted)
    return pool


def test_the_connector_has_the_version_of_the_installed_pyspark() -> None:
    connector, *others = jars_of("kafka", pyspark_version())
    assert connector.file_name == f"spark-sql-kafka-0-10_2.13-{pyspark_version()}.jar"
    assert {jar.name for jar in others} == {
        "spark-token-provider-kafka-0-10_2.13",
        "kafka-clients",
        "commons-pool2",
    }


@pytest.mark.parametrize("kind", ["kafka", "iceberg", "delta"])
def test_another_spark_is_told_which_versions_would_do(kind: str) -> None:
    with pytest.raises(KafkaError, match=r"PySpark 3\.5\.1; they are for 4\.1\.0, .*4\.1\.3"):
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
    with pytest.raises(KafkaError, match="another checksum"):
        jar_paths(["kafka"])
    assert not list(tmp_path.rglob("commons-pool2*.jar"))
