"""`tierlog.tables`: a topic's records in the remote tier, as Arrow, without Spark and a broker.

    from tierlog.tables import scan

    orders = scan("s3://my-bucket/tierlog", "orders", columns=["offset", "value"])
    duckdb.sql("select count(*) from orders")
    orders.polars().filter(pl.col("offset") >= 1000).collect()

Needs the extra `arrow`; DuckDB, Polars and pandas are installed separately.
"""

from .clients.runtime.supported_system import refusal
from .pipeline.extra import missing_extra

if (_message := refusal()) is not None:
    raise ImportError(_message)

try:
    from .pipeline.reading.scan_options import ScanError
    from .pipeline.tables.topic_scan import TopicScan, scan
except ModuleNotFoundError as error:
    raise missing_extra(error, "arrow") from None

__all__ = ["ScanError", "TopicScan", "scan"]
