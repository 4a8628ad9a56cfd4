"""Spark for little data and many plans: what it costs to compile them is not earned back."""

SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

SMALL_SPARK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": SMALL_JVM,
    "spark.sql.codegen.wholeStage": "false",
}
"""Settings of a session."""
