"""Each topic has a table of its own, with a name that the format takes."""

import pytest

from tierlog.clients.errors import KafkaError
from tierlog.pipeline.spark.materialize.table_names import TableNames
from tierlog.pipeline.spark.tables.export_state import ExportError


def test_a_path_takes_the_name_of_any_topic() -> None:
    names = TableNames("s3a://bucket/lake/{topic}", "delta")
    for topic in ("orders", "shop.orders-eu", "2024", "_internal"):
        assert names.of(topic) == (f"s3a://bucket/lake/{topic}", None)


@pytest.mark.parametrize(
    ("topic", "table"),
    [("shop.orders-eu", "shop_orders_eu"), ("2024", "_2024"), ("2024.q1", "_2024_q1")],
)
def test_a_name_that_sql_cannot_take_is_mapped_and_the_note_says_so(topic: str, table: str) -> None:
    named = TableNames("lake.db.{topic}", "iceberg").of(topic)
    assert named == (f"lake.db.{table}", f"topic {topic!r} is the table lake.db.{table}")


def test_a_name_that_needs_no_mapping_has_no_note() -> None:
    names = TableNames("lake.db.raw_{topic}", "iceberg")
    assert names.of("orders") == ("lake.db.raw_orders", None)
    assert names.of("orders", "_4fA").name == "lake.db.raw_orders_4fA"


@pytest.mark.parametrize(("first", "second"), [("a.b", "a_b"), ("Orders", "orders")])
def test_two_topics_never_share_a_table(first: str, second: str) -> None:
    names = TableNames("lake.db.{topic}", "iceberg")
    before = names.of(first)
    with pytest.raises(ExportError, match=f"'{first}' and '{second}' would share the table"):
        names.of(second)
    assert names.of(first) == before
    assert TableNames("/lake/{topic}", "delta").of(second).name == f"/lake/{second}"


@pytest.mark.parametrize(
    ("template", "table_format", "reason"),
    [
        ("/lake/orders", "delta", "has no {topic}"),
        ("lake.{topic}", "iceberg", "catalog.namespace.table, such as lake.db.{topic}"),
    ],
)
def test_a_template_that_cannot_name_tables_is_refused(
    template: str, table_format: str, reason: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        TableNames(template, table_format)
    assert reason in refused.value.message
