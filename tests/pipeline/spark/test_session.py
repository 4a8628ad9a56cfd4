"""What a session is made of before Spark starts: its jars, and the settings of the caller."""

import pytest

from tierlog.clients.errors import KafkaError
from tierlog.pipeline.spark.arguments.job_arguments import jars_for
from tierlog.pipeline.spark.session import catalog_settings, overridden


def test_the_jars_of_a_job_are_those_of_its_format_and_of_its_file_systems() -> None:
    assert jars_for("delta", "s3a://bucket/table", None) == ("delta", "s3")
    assert jars_for("iceberg", "lake.db.events", "s3a://bucket/lake") == ("iceberg", "s3")
    assert jars_for("parquet", "gs://bucket/table", "gs://bucket/lake") == ("gcs",)
    assert jars_for("delta", "/data/orders", None) == ("delta",)
    assert jars_for(None, None, None) == ()


def test_a_rest_catalog_takes_icebergs_own_access_to_s3_and_only_for_iceberg() -> None:
    url = "s3a://bucket/lake"
    assert jars_for("iceberg", "lake.db.t", url, catalog="rest") == ("iceberg", "iceberg-aws")
    assert jars_for("iceberg", "lake.db.t", url, catalog="jdbc") == ("iceberg", "s3")
    assert jars_for("delta", "s3a://bucket/t", None, catalog="rest") == ("delta", "s3")


def test_a_catalog_has_the_names_that_iceberg_gives_its_properties() -> None:
    assert catalog_settings("rest", "http://catalog:8181", "production") == {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "rest",
        "spark.sql.catalog.lake.uri": "http://catalog:8181",
        "spark.sql.catalog.lake.warehouse": "production",
    }
    assert catalog_settings("hadoop", None, None) == {}
    database = catalog_settings("jdbc", "jdbc:sqlite:f", "/lake")
    assert database["spark.sql.catalog.lake.jdbc.schema-version"] == "V1"


@pytest.mark.parametrize(
    ("kind", "uri", "warehouse", "message"),
    [
        ("rest", None, "w", "type rest needs a URI, such as http://catalog:8181"),
        ("jdbc", None, "w", "type jdbc needs a URI, such as jdbc:postgresql://"),
        ("jdbc", "jdbc:sqlite:f", None, "type jdbc needs a warehouse"),
        ("hadoop", "http://catalog", "w", "has a warehouse and no URI"),
        ("glue", None, None, "no Iceberg catalog of type 'glue' is known, only hadoop, rest, jdbc"),
    ],
)
def test_what_a_catalog_lacks_is_said_before_spark_starts(
    kind: str, uri: str | None, warehouse: str | None, message: str
) -> None:
    with pytest.raises(KafkaError, match=message):
        catalog_settings(kind, uri, warehouse)


def test_jars_and_extensions_of_the_caller_add_to_ours_and_other_settings_override() -> None:
    ours = {"spark.jars": "a.jar,b.jar", "spark.sql.extensions": "Ours", "spark.ui.enabled": "no"}
    theirs = {"spark.jars": "c.jar,a.jar", "spark.sql.extensions": "T", "spark.ui.enabled": "yes"}
    assert overridden(ours, theirs) == {
        "spark.jars": "a.jar,b.jar,c.jar",
        "spark.sql.extensions": "Ours,T",
        "spark.ui.enabled": "yes",
    }
    assert overridden({}, {"spark.jars": "c.jar"}) == {"spark.jars": "c.jar"}
    options = "spark.executor.extraJavaOptions"
    words = "--add-opens a --add-opens b"
    assert overridden({options: "-Dlimit=1"}, {options: words}) == {options: f"-Dlimit=1 {words}"}
