"""`tierlog.spark`: a tier as a Spark data source, sessions that have it, and writing to a topic.

    from tierlog.spark import TierlogDataSource, spark_session

    spark = spark_session("orders")
    spark.dataSource.register(TierlogDataSource)
    spark.read.format("tierlog").option("path", "s3://my-bucket/tierlog").option("topic", "orders")

Needs the extra `spark`, and Java 17 or newer.
"""

from .clients.runtime.supported_system import refusal
from .pipeline.extra import missing_extra

if (_message := refusal()) is not None:
    raise ImportError(_message)

try:
    from .pipeline.spark.session import spark_session
    from .pipeline.spark.source import TierlogDataSource
    from .pipeline.spark.streaming.run_available import run_available
    from .pipeline.spark.streaming.stream_progress import TierBatch, TierProgress
    from .pipeline.spark.topic_views import TopicViews, register_topics
    from .pipeline.spark.topic_writer import TopicWriter
    from .pipeline.spark.typed.registered_schema import SchemaError
    from .pipeline.spark.typed.registry import SchemaRegistry
    from .pipeline.spark.typed.schemas import Schemas
    from .pipeline.spark.typed.typed_columns import typed
except ModuleNotFoundError as error:
    raise missing_extra(error) from None

__all__ = [
    "SchemaError",
    "SchemaRegistry",
    "Schemas",
    "TierBatch",
    "TierProgress",
    "TierlogDataSource",
    "TopicViews",
    "TopicWriter",
    "register_topics",
    "run_available",
    "spark_session",
    "typed",
]
