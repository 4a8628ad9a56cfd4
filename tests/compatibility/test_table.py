"""What tests start is recognised, brought to the end of the run, and compared with a page."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import java_command
from tierlog.tests import toolchain

from .ran import Ran, uses_of
from .table import Row, differences, rows_of, rows_that_ran, with_table

MARKS = (
    "\n<!-- Written by `make table` from what `make test-kafka` ran. -->\n"
    "<!-- End of the table. -->\n"
)
USES = [
    Ran("aiokafka", "0.14.0", "classic", "range"),
    Ran("aiokafka", "0.14.0", "classic", "sticky"),
    Ran("aiokafka", "0.14.0", "consumer", "uniform"),
    Ran("kafka-python", "3.0.12", did="produce"),
]
ROOT = Path(__file__).parents[2]


def test_the_table_says_what_ran_and_is_found_again() -> None:
    page = with_table(f"before{MARKS}after", USES)
    assert "| aiokafka | 0.14.0 | Python, asyncio; classic: range, sticky; consumer: uniform |" in (
        page.splitlines()
    )
    assert set(rows_of(page)) == rows_that_ran(USES)
    assert rows_that_ran(USES) == {
        Row("aiokafka", "0.14.0", ("classic", "consumer")),
        Row("kafka-python", "3.0.12", ()),
    }
    assert with_table(page, USES) == page
    assert differences(page, USES) == []


def test_another_version_another_protocol_and_a_missing_client_are_reported() -> None:
    page = with_table(MARKS, USES)
    newer = [use._replace(version="0.15.0") for use in USES[:3]] + USES[3:]
    assert differences(page, newer) == [
        "ran, and docs/clients.md does not say so: aiokafka 0.15.0 classic consumer",
        "in docs/clients.md, and did not run: aiokafka 0.14.0 classic consumer",
    ]
    assert len(differences(page, USES[:2] + USES[3:])) == 2
    assert differences(page, USES[:3]) == [
        "in docs/clients.md, and did not run: kafka-python 3.0.12"
    ]
    # How a client was used is a detail.
    assert differences(page, [use._replace(did="otherwise") for use in USES]) == []


def test_what_this_machine_cannot_run_stays_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = [*USES, Ran("franz-go", "1.22.2", "classic", "range"), Ran("kafka-topics", "4.3")]
    page = with_table(MARKS, everything)
    monkeypatch.setattr(
        toolchain,
        "TOOLCHAINS",
        {
            name: toolchain.Toolchain(name, name, lambda: False)
            for name in ("java", "mvn", "go", "node")
        },
    )
    assert differences(page, USES) == []
    assert with_table(page, USES) == page


def test_members_are_recognised_by_their_arguments() -> None:
    member = [sys.executable, "-m", "a_member"]
    ((name, version, *others),) = uses_of(
        [*member, '{"client": "confluent", "strategy": "range", "protocol": "consumer"}']
    )
    assert (name, others) == ("confluent-kafka", ["consumer", "range"])
    assert version.startswith("2.")
    ((_, _, protocol, _),) = uses_of([*member, '{"client": "aiokafka"}'])
    assert protocol == "classic"
    assert uses_of([*member, '{"client": "of another kind"}']) == []
    assert uses_of([*member, "{not JSON"]) == []
    assert uses_of([*member, '{"nobody": 1}']) == []
    assert uses_of(["ls", "-l"]) == []


@pytest.mark.requires("java", "mvn")
def test_tools_are_recognised_by_their_class_and_only_those_that_talk_to_us(tmp_path: Path) -> None:
    def tool(name: str, *arguments: str) -> list[Ran]:
        return uses_of(java_command(name, *arguments, flags=("-Xmx64m",)))

    command = "org.apache.kafka.tools.TopicCommand"
    server = ("--bootstrap-server", "127.0.0.1:55001")
    listing = Ran("kafka-topics", "4.3.1", did="--bootstrap-server --list")
    assert tool(command, *server, "--list") == [listing]
    console = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    in_group = (*server, "--group", "g", "--command-property", "group.protocol=consumer")
    assert tool(console, *in_group)[1] == Ran("kafka-clients", "4.3.1", "consumer")
    worker = "org.apache.kafka.connect.cli.ConnectStandalone"
    assert tool(worker, "worker.properties") == [Ran("Kafka Connect", "4.3.1", did="standalone")]
    assert tool("of.some.other.Class") == []
    properties = tmp_path / "server.properties"
    properties.write_text("listeners=PLAINTEXT://127.0.0.1:55001,CONTROLLER://127.0.0.1:55002\n")
    assert tool("kafka.Kafka", str(properties)) == []
    assert tool(command, *server, "--list") == []
    member = '{"client": "aiokafka", "bootstrap": "127.0.0.1:55001"}'
    assert uses_of([sys.executable, "-m", "a_member", member]) == []


STORY = """
import subprocess, sys
import pytest
from tierlog.tests.compatibility.ran import record

@pytest.fixture(scope="module")
def started():
    subprocess.run([sys.executable, "-c", "0", '{"client": "aiokafka"}'], check=True)

def test_in_a_fixture(started):
    pass

def test_that_says_so():
    record("something-else", "1.0", protocol="consumer", did="this and that")

def test_in_a_test():
    subprocess.run([sys.executable, "-c", "0", '{"client": "confluent"}'], check=True)
"""


def run_tests(directory: Path, page: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "clients.md").write_text(page)
    options = ("-p", "tierlog.tests.conftest", "--compare-table", "clients.md", *arguments)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, "test_story.py"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".namespace")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "with workers"])
def test_a_whole_run_says_where_the_page_says_something_else(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    (tmp_path / "test_story.py").write_text(STORY)
    done = run_tests(tmp_path, MARKS, *workers)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ran, and docs/clients.md does not say so: ") == 3, done.stdout
    assert "is mended by: make table" in done.stdout
    ran = [line.split(": ")[1].split() for line in done.stdout.splitlines() if "ran, and" in line]
    stated = with_table(MARKS, [Ran(*each) for each in ran])
    assert "clients.md" not in run_tests(tmp_path, stated, *workers).stdout


def test_a_run_with_failures_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "test_story.py").write_text(STORY + "    assert False\n")
    assert (
        "not compared with docs/clients.md, for tests failed" in run_tests(tmp_path, MARKS).stdout
    )
