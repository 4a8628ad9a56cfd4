"""The arguments and types that the command lines of several jobs share."""

import argparse
from typing import TYPE_CHECKING, Protocol

from ....tiering.store.remote_url import RemoteUrl
from ..known_jars import CATALOGS, DELTA, ICEBERG, ICEBERG_AWS, kind_of_url
from ..store_settings import store_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = ("iceberg", "delta", "parquet")
"""The table formats."""

_JARS = {"iceberg": (ICEBERG,), "delta": (DELTA,)}


class Jobs(Protocol):
    """The result of `ArgumentParser.add_subparsers`, to which a job adds its parser."""

    def add_parser(
        self,
        name: str,
        *,
        help: str,
        description: str,
        epilog: str,
        formatter_class: type[argparse.HelpFormatter],
    ) -> argparse.ArgumentParser: ...


def positive(text: str) -> int:
    """A whole number above zero, for argparse's `type`."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def add_record_arguments(parser: argparse.ArgumentParser, *, or_pattern: bool = False) -> None:
    """Add the arguments that select records and control how they are copied."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--topic", action="append", help="may be given several times")
    if or_pattern:
        which.add_argument(
            "--pattern",
            metavar="REGEX",
            help="the topics with names that match as a whole (RE2), also those that come later",
        )
    parser.add_argument(
        "--warehouse", metavar="URL", help="Iceberg: where the catalog `lake` keeps its tables"
    )
    parser.add_argument(
        "--catalog",
        choices=CATALOGS,
        default="hadoop",
        help="Iceberg: the type of the catalog `lake` (default: hadoop, files in the warehouse)",
    )
    parser.add_argument(
        "--catalog-uri",
        metavar="URI",
        help="Iceberg: the REST server, http://…, or the database, jdbc:…, of the catalog `lake`",
    )
    parser.add_argument(
        "--isolation",
        choices=("read_committed", "read_uncommitted"),
        default="read_committed",
        help="whether records of aborted transactions are left out (default: they are)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be done")


def session_for(
    job: str,
    options: argparse.Namespace,
    tier: RemoteUrl | None = None,
    *,
    jars: tuple[str, ...] = (),
) -> "SparkSession":
    """The Spark session of a job, with the jars for its table's format and file system, if any.

    `jars` are kinds that the job needs beside those.
    A table in the object store of the tier is reached with the tier's credentials.
    """
    from ..session import set_hadoop, spark_session, stated_settings

    spark = spark_session(
        f"tierlog-{job}",
        master=options.master,
        jars=(
            *jars_for(options.format, options.table, options.warehouse, catalog=options.catalog),
            *jars,
        ),
        warehouse=options.warehouse,
        catalog=options.catalog,
        catalog_uri=options.catalog_uri,
        settings=options.conf,
    )
    stated = stated_settings(spark)
    for url in (options.table, options.warehouse):
        if tier is not None and url is not None:
            set_hadoop(spark, store_settings(tier, url, stated))
    return spark


def jars_for(
    table_format: str | None, table: str | None, warehouse: str | None, *, catalog: str = "hadoop"
) -> tuple[str, ...]:
    """The kinds of jars for a table format, and for the file systems of table and warehouse.

    A REST catalog says where its tables are, and how they are reached: in S3 with Iceberg's own
    access.
    """
    formats = _JARS.get(table_format, ()) if table_format else ()
    if ICEBERG in formats and catalog == "rest":
        return (*formats, ICEBERG_AWS)
    kinds = [kind_of_url(url) for url in (table, warehouse) if url is not None]
    return (*formats, *dict.fromkeys(kind for kind in kinds if kind is not None))
