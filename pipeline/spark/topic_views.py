"""Makes the topics of a tier temporary views, for SQL.

    views = register_topics(spark, "s3://bucket/tier")
    spark.sql("SELECT count(*) FROM orders JOIN `orders-eu` USING (key)")
    views.refresh()

Spark plans the reading of a view once, by its first query: from then on the view shows the tier of
that moment, in all queries. `refresh` makes the views again.

Temporary views work with every catalog, and leave no options, and so no secrets, outside the
session. Tables of the session's catalog would not do: Spark 4.1 does not pass their OPTIONS to a
Python data source, and with Delta's catalog it cannot read them at all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...tiering.store.object_keys import is_partition_name
from ..reading.scan_options import ScanError, scan_options
from ..reading.tier_topics import topic_names
from .source import TierlogDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class TopicViews:
    """The temporary views of a tier's topics in a session."""

    names: tuple[str, ...]
    """The topics; each view is named like its topic, which SQL has in backticks if need be."""
    _spark: "SparkSession" = field(repr=False)
    _options: Mapping[str, str] = field(repr=False)
    _is_global: bool

    def refresh(self) -> None:
        """Make the views again: they show the tier as the next query finds it."""
        for topic in self.names:
            rows = (
                self._spark.read.format("tierlog")
                .options(**self._options)
                .option("topic", topic)
                .load()
            )
            # The name is read as SQL, where a dot or a hyphen needs backticks.
            name = f"`{topic}`"
            if self._is_global:
                rows.createOrReplaceGlobalTempView(name)
            else:
                rows.createOrReplaceTempView(name)


def register_topics(
    spark: "SparkSession",
    url: str,
    topics: str | Iterable[str] | None = None,
    *,
    is_global: bool = False,
    **options: str,
) -> TopicViews:
    """Make topics temporary views of the session, each with the name of its topic.

    Views of the same name are replaced.

    Args:
        spark: the session; `format("tierlog")` is registered in it.
        url: the broker's `rsm.config.url`, or a path on this machine.
        topics: their names, or one name; by default all of which the tier holds a complete
            segment now.
        is_global: whether all sessions of the application see them, as `global_temp.orders`, or
            in the database that Spark's setting `spark.sql.globalTempDatabase` names.
        options: options of `format("tierlog")` for all of them, except those that name topics.

    Raises:
        ScanError: an option, a name or the tier is not valid, or two names differ in case alone.
    """
    stated = {"path": url, **options}
    parsed = scan_options({**stated, "subscribePattern": ".*"})
    if topics is None:
        names = topic_names(parsed)
    else:
        names = (topics,) if isinstance(topics, str) else tuple(topics)
    _check_names(names)
    spark.dataSource.register(TierlogDataSource)
    views = TopicViews(names, spark, stated, is_global)
    views.refresh()
    return views


def _check_names(topics: Iterable[str]) -> None:
    """Raise ScanError unless each topic can be a view of its own; Spark ignores case."""
    by_view: dict[str, str] = {}
    for topic in topics:
        if not is_partition_name(topic, 0):
            raise ScanError(f"{topic!r} is not the name of a topic")
        other = by_view.setdefault(topic.lower(), topic)
        if other != topic:
            raise ScanError(
                f"The topics {other!r} and {topic!r} would be one view, as Spark ignores the case "
                "of names: register them one after the other"
            )
