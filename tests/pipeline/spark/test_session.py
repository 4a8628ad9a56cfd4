"""What a session is made of before Spark starts: its jars, and the settings of the caller."""

from tierlog.pipeline.spark.arguments.job_arguments import jars_for
from tierlog.pipeline.spark.session import overridden


def test_the_jars_of_a_job_are_those_of_its_format_and_of_its_file_systems() -> None:
    assert jars_for("delta", "s3a://bucket/table", None) == ("delta", "s3")
    assert jars_for("iceberg", "lake.db.events", "s3a://bucket/lake") == ("iceberg", "s3")
    assert jars_for("parquet", "gs://bucket/table", "gs://bucket/lake") == ("gcs",)
    assert jars_for("delta", "/data/orders", None) == ("delta",)
    assert jars_for(None, None, None) == ()


def test_jars_and_extensions_of_the_caller_add_to_ours_and_other_settings_override() -> None:
    ours = {"spark.jars": "a.jar,b.jar", "spark.sql.extensions": "Ours", "spark.ui.enabled": "no"}
    theirs = {"spark.jars": "c.jar,a.jar", "spark.sql.extensions": "T", "spark.ui.enabled": "yes"}
    assert overridden(ours, theirs) == {
        "spark.jars": "a.jar,b.jar,c.jar",
        "spark.sql.extensions": "Ours,T",
        "spark.ui.enabled": "yes",
    }
    assert overridden({}, {"spark.jars": "c.jar"}) == {"spark.jars": "c.jar"}
