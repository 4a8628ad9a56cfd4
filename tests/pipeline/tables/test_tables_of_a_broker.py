"""What a broker has copied to its tier, as DuckDB and Polars show it, without Spark."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import confluent_kafka
import duckdb
import pytest

from tierlog.pipeline.tables.topic_scan import Isolation
from tierlog.tables import scan
from tierlog.tests.house_rules import ROOT
from tierlog.tests.scenarios.tiering.one_broker import LATEST_TIERED, OneBroker
from tierlog.tests.scenarios.tiering.tier_stores import DirectoryTier

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "tables.md").read_text()
COUNTS = {0: 300, 1: 200}
_WITHOUT_SPARK = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in ('pyspark', 'py4j', 'pandas', 'matplotlib', 'rich'):
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
sys.meta_path.insert(0, Hidden())
"""


def blocks(language: str) -> list[str]:
    """The page's blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def order(number: int) -> bytes:
    customer = ("ada", "grace", "edsger")[number % 3]
    return json.dumps({"customer": customer, "cents": 100 + number % 3}).encode()


def sell(broker: OneBroker) -> None:
    """Orders in two partitions, all of which go to the tier."""
    broker.create("orders", per_segment=20, partitions=2, local_retention_ms=1)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.node.bootstrap, "acks": "all", "log_level": 0}
    )
    for partition, count in COUNTS.items():
        for number in range(count):
            producer.produce("orders", order(number), partition=partition)
    assert producer.flush(60) == 0


def pay(broker: OneBroker) -> None:
    """Transactions: 0 and 1 are committed, 3 and 4 aborted, 6 is committed; markers follow each."""
    broker.create("payments", local_retention_ms=1)
    broker.transact("payments", (0, 1), commit=True)
    broker.transact("payments", (3, 4), commit=False)
    broker.transact("payments", (6,), commit=True)


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a tier that holds all orders and payments, by the broker's own word."""
    directory = tmp_path_factory.mktemp("tables")
    store = DirectoryTier(directory / "remote")
    with OneBroker(directory, store) as broker:
        sell(broker)
        pay(broker)
        broker.wait_for_offset("orders", LATEST_TIERED, (COUNTS[0] - 1, 0))
        broker.wait_for_offset("payments", LATEST_TIERED, (7, 0))
        last_of_one = COUNTS[1] - 1
        assert broker.offset("orders", LATEST_TIERED, 1) == (last_of_one, 0)
    return store.properties["rsm.config.url"]


def test_duckdb_sees_what_the_broker_says_is_in_the_tier(tier: str) -> None:
    orders = scan(tier, "orders", columns=["partition", "offset"])
    query = 'select partition, count(*), max("offset") from orders group by all order by partition'
    with duckdb.connect() as connection:
        connection.register("orders", orders)
        found = connection.execute(query).fetchall()
    assert orders.schema.names == ["partition", "offset"]
    assert found == [(partition, count, count - 1) for partition, count in COUNTS.items()]


def offsets(tier: str, isolation: Isolation) -> list[int]:
    table = scan(tier, "payments", columns=["offset"], isolation=isolation).to_table()
    return [cast("int", row["offset"]) for row in cast("Any", table).to_pylist()]


def test_records_of_aborted_transactions_are_left_out(tier: str) -> None:
    assert offsets(tier, "read_uncommitted") == [0, 1, 3, 4, 6]
    assert offsets(tier, "read_committed") == [0, 1, 6]


def test_the_queries_of_the_page_give_what_it_shows(tier: str) -> None:
    queries = [block for block in blocks("python") if "print(" in block]
    assert len(queries) == 3
    program = "".join(queries).replace("s3://my-bucket/tierlog", tier)
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", _WITHOUT_SPARK + program],
        env={"PYTHONPATH": str(ROOT / ".namespace"), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    shown = "".join(blocks("text"))
    assert [line.rstrip() for line in answer.stdout.splitlines() if line] == shown.splitlines()


def test_the_page_makes_the_tier_that_its_answers_are_from(tmp_path: Path) -> None:
    (program,) = [block for block in blocks("python") if "offload" in block]
    url = f"file://{tmp_path}/shop"
    subprocess.run(
        [sys.executable, "-c", program.replace("file:///tmp/shop", url)],
        env={"PYTHONPATH": str(ROOT / ".namespace")},
        check=True,
        timeout=120,
    )
    columns = ["partition", "offset", "value"]
    rows = cast("Any", scan(url, "orders", columns=columns).to_table()).to_pylist()
    made = [(row["partition"], row["offset"], row["value"]) for row in rows]
    assert made == [
        (partition, number, order(number))
        for partition, count in COUNTS.items()
        for number in range(count)
    ]


def test_a_program_may_end_in_the_middle_of_a_scan(tier: str) -> None:
    program = (
        "from tierlog.tables import scan\n"
        f"reader = scan({tier!r}, 'orders').reader()\n"
        "print(reader.read_next_batch().num_rows > 0)"
    )
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={"PYTHONPATH": str(ROOT / ".namespace")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (answer.stdout, answer.stderr, answer.returncode) == ("True\n", "", 0)
