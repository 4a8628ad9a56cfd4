"""docs/typed-columns.md word by word: its examples run as they stand, over a tier in a folder."""

import json
import re
import shlex
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.pipeline.spark.__main__ import main
from tierlog.tests.house_rules import ROOT
from tierlog.tests.pipeline.spark.folder_tier import Tier
from tierlog.tests.pipeline.spark.materialize.lake import Lake
from tierlog.tests.pipeline.spark.typed.apicurio import Apicurio
from tierlog.tests.pipeline.spark.typed.producer import NEWER, avro_serializer

pytestmark = [pytest.mark.slow, pytest.mark.requires("java", "mvn")]


PAGE = (ROOT / "docs" / "typed-columns.md").read_text()
COMMANDS = re.findall(r"^    (tierlog-spark .+)$", PAGE, re.MULTILINE)


def examples() -> list[str]:
    return [part.partition("```")[0] for part in PAGE.split("```python\n")[1:]]


def test_the_examples_decode_a_topic_of_a_tier(
    spark: SparkSession, apicurio: Apicurio, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write = avro_serializer(SchemaRegistryClient({"url": apicurio.url}), json.dumps(NEWER))
    context = SerializationContext("orders", MessageField.VALUE)
    value = write({"id": 41, "note": "gift"}, context)
    assert isinstance(value, bytes)
    records = [Record(each, 0, None, content) for each, content in enumerate((value, b"?", None))]
    tier = Tier(tmp_path / "tier")
    tier.bucket.put_log(1, bytes(build_batch(records, base_offset=0, leader_epoch=0)))
    tier.write()
    table = str(tmp_path / "table")
    names: dict[str, Any] = {
        "tier": str(tier.directory),
        "registry_url": apicurio.url,
        "table": table,
    }
    batch, store = (tmp_path / "batch.py", tmp_path / "store.py")
    for file, example in zip((batch, store), examples(), strict=True):
        file.write_text(example)
    names = run_path(str(batch), init_globals=names)
    shown = capsys.readouterr().out
    assert "|     0|  41|gift|" in shown
    assert "fewer than 5 bytes: no schema id" in shown
    run_path(str(store), init_globals=names)["store"](names["rows"], 0)
    assert spark.read.parquet(table).where("value.id = 41").count() == 1
    assert spark.read.parquet(table).where("undecoded IS NOT NULL").count() == 1


def test_the_commands_keep_tables_with_typed_columns(
    spark: SparkSession, apicurio: Apicurio, tmp_path: Path
) -> None:
    write = avro_serializer(SchemaRegistryClient({"url": apicurio.url}), json.dumps(NEWER))
    value = write({"id": 41, "note": "gift"}, SerializationContext("orders", MessageField.VALUE))
    assert isinstance(value, bytes)
    lake = Lake(spark, "delta", tmp_path)
    lake.put_records("orders", 0, (None, value))
    lake.put_records("clicks", 0, (None, b'{"id": 41, "note": "gift"}'))
    (tmp_path / "schemas").mkdir()
    schema = {"properties": {"id": {"type": "integer"}, "note": {"type": "string"}}}
    (tmp_path / "schemas" / "clicks.json").write_text(json.dumps({"type": "object", **schema}))
    places = {
        "s3://my-bucket": str(tmp_path),
        "s3a://my-bucket/lake": str(tmp_path / "tables"),
        "http://registry:8081": apicurio.url,
        "schemas/": f"{tmp_path}/schemas/",
    }
    assert len(COMMANDS) == 2
    for command in COMMANDS:
        for stated, here in places.items():
            command = command.replace(stated, here)
        assert main(shlex.split(command)[1:]) == 0
    for topic in ("orders", "clicks"):
        assert [tuple(row) for row in lake.rows(topic).select("id", "note").collect()] == [
            (41, "gift")
        ]
