"""The jars beside Spark's own: in versions that go together, unspoilt, and fetched but once."""

import hashlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pyspark
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tierlog.clients.errors import KafkaError
from tierlog.pipeline.spark.jars import jar_paths, pyspark_version
from tierlog.pipeline.spark.known_jars import HADOOP, KINDS, LINES, Jar, jars_of, kind_of_url
from tierlog.tests.house_rules import ROOT


def commons_pool() -> Jar:
    """The smallest of the connector's jars."""
    (pool,) = [jar for jar in jars_of("kafka", pyspark_version()) if jar.name == "commons-pool2"]
    return pool


def only_one_is_wanted(cache: Path, monkeypatch: pytest.MonkeyPatch, only: Jar) -> None:
    """An empty cache, and one jar that any kind stands for."""

    def wanted(_kind: str, _version: str) -> tuple[Jar, ...]:
        return (only,)

    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr("tierlog.pipeline.spark.jars.jars_of", wanted)


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
@pytest.mark.parametrize("kind", KINDS)
def test_what_pip_brings_with_the_extra_today_has_jars(kind: str) -> None:
    newest = newest_allowed_by_the_extra()
    assert f"{newest.major}.{newest.minor}" == LINES[-1]
    assert jars_of(kind, str(newest))


@pytest.mark.parametrize("kind", KINDS)
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


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_for_another_spark_names_the_supported_versions(kind: str) -> None:
    remedy = r"PySpark 3\.5\.1, only for 4\.1: pip install 'pyspark~=4\.1\.0'"
    with pytest.raises(KafkaError, match=remedy):
        jars_of(kind, "3.5.1")


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(KafkaError, match=r"'hudi'; there are kafka, .+, gcs and abfs"):
        jars_of("hudi", pyspark_version())


def test_the_file_systems_have_the_version_of_the_hadoop_that_pyspark_holds() -> None:
    (api,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    assert api.name == f"hadoop-client-api-{HADOOP}.jar"
    names = {jar.file_name for kind in ("s3", "abfs") for jar in jars_of(kind, pyspark_version())}
    assert {f"hadoop-aws-{HADOOP}.jar", f"hadoop-azure-{HADOOP}.jar"} <= names


def test_s3_takes_the_modules_of_the_sdk_and_not_all_of_it() -> None:
    sdk = [jar for jar in jars_of("s3", pyspark_version()) if jar.group == "software.amazon.awssdk"]
    assert len({jar.version for jar in sdk}) == 1
    assert {"s3", "s3-transfer-manager", "sts", "sso"} < {jar.name for jar in sdk}
    assert "bundle" not in {jar.name for jar in sdk}


def test_no_two_jars_of_a_kind_have_the_same_file_name() -> None:
    for kind in KINDS:
        names = [jar.file_name for jar in jars_of(kind, pyspark_version())]
        assert len(set(names)) == len(names)


def test_two_versions_of_amazons_sdk_are_refused_before_anything_is_fetched() -> None:
    with pytest.raises(KafkaError, match="two versions of Amazon's SDK: use s3 for tables at"):
        jar_paths(["iceberg", "s3", "iceberg-aws"])


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("s3a://bucket/table", "s3"),
        ("S3://bucket/table", "s3"),
        ("gs://bucket/table", "gcs"),
        ("abfss://container@account.dfs.core.windows.net/table", "abfs"),
        ("hdfs://host/table", None),
        ("/data/s3/table", None),
        ("lake.db.events", None),
    ],
)
def test_the_scheme_of_a_url_decides_which_file_system_it_needs(url: str, kind: str | None) -> None:
    assert kind_of_url(url) == kind


@pytest.mark.slow
@pytest.mark.requires("java")
def test_a_variant_of_a_jar_is_fetched_by_its_classifier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_one_is_wanted(
        tmp_path,
        monkeypatch,
        Jar(
            "org.apache.iceberg",
            "iceberg-open-api",
            "1.11.0",
            "b0aa8636d88c24976d552ac9b3075a1315dc1ccd4fa6ed95b365901842664316",
            "test-fixtures",
        ),
    )
    (path,) = map(Path, jar_paths(["kafka"]))
    assert path.name == "iceberg-open-api-1.11.0-test-fixtures.jar"


@pytest.mark.slow
@pytest.mark.requires("java")
def test_a_jar_is_fetched_once_and_is_the_one_that_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = commons_pool()
    only_one_is_wanted(tmp_path, monkeypatch, pool)
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
def test_a_home_that_cannot_be_written_is_named_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container whose user has no home: a file in the folder's place, as root may all."""
    home = tmp_path / "home"
    home.write_bytes(b"")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(home))
    with pytest.raises(KafkaError, match=r"home/\.cache/.+XDG_CACHE_HOME"):
        jar_paths(["kafka"])


def test_a_jar_with_another_checksum_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_one_is_wanted(tmp_path, monkeypatch, commons_pool()._replace(sha256="0" * 64))
    with pytest.raises(KafkaError, match="a wrong checksum"):
        jar_paths(["kafka"])
    assert not list(tmp_path.rglob("commons-pool2*.jar"))
