"""Every command gives the same JSON of Apache Kafka and of tierlog, but for ids and times."""

import json
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import KafkaNode, run_tool
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.cli.client.command_run import Answer, Json, Tierlog

pytestmark = [pytest.mark.long, pytest.mark.requires("java", "mvn")]

_RECORDS = b"""\
{"key":"k","payload":"v","headers":["a","b"],"ts":1767225600000}
{"payload_base64":"/w==","ts":1767225600001}
"""

STORY: tuple[tuple[str, ...], ...] = (
    ("topic", "create", "t", "-p", "2", "-c", "retention.ms=-1"),
    ("topic", "create", "t"),
    ("topic", "create", "t", "--if-not-exists"),
    ("topic", "create", "bad", "-c", "retention.ms=never"),
    ("topic", "create", "bad/name"),
    ("produce", "t", "-p", "1"),
    ("consume", "t", "-e", "-p", "1"),
    ("topic", "ls"),
    ("topic", "describe", "t"),
    ("topic", "describe", "nope"),
    ("topic", "alter", "t", "-p", "3", "-c", "segment.bytes=2000000"),
    ("topic", "alter", "t", "-p", "2"),
    ("topic", "alter", "t", "-d", "retention.ms"),
    ("topic", "describe", "t"),
    ("topic", "storage", "t"),
    ("config", "get", "topic", "t", "retention.ms", "segment.bytes", "cleanup.policy"),
    ("config", "set", "topic", "t", "cleanup.policy=compact"),
    ("config", "unset", "topic", "t", "cleanup.policy"),
    ("config", "get", "topic", "t", "cleanup.policy"),
    ("config", "set", "broker", "default", "log.cleaner.threads=2"),
    ("config", "get", "broker", "1", "log.cleaner.threads"),
    ("config", "set", "group", "g", "consumer.session.timeout.ms=50000"),
    ("config", "get", "group", "g", "consumer.session.timeout.ms"),
    ("consume", "t", "-g", "g", "-n", "1"),
    ("group", "ls"),
    ("group", "describe", "g"),
    ("group", "seek", "g", "--to", "end"),
    ("group", "seek", "g", "--to", "start", "--topic", "t"),
    ("group", "describe", "g"),
    ("group", "delete", "g"),
    ("group", "delete", "g"),
    ("group", "describe", "g"),
    ("topic", "trim", "t", "-o", "7"),
    ("topic", "trim", "t", "-o", "end"),
    ("topic", "delete", "t"),
    ("topic", "delete", "t"),
    ("cluster", "info"),
    ("cluster", "ping"),
)
REFUSED = [
    "topic create t",
    "topic create bad -c retention.ms=never",
    "topic create bad/name",
    "topic describe nope",
    "topic alter t -p 2",
    "group delete g",
    "group describe g",
    "topic trim t -o 7",
    "topic delete t",
]
_OF_ONE_CLUSTER = frozenset(
    {"id", "cluster_id", "port", "bootstrap", "ms", "leader_epoch", "bytes_local"}
)


def compared(answer: Answer) -> tuple[int, object]:
    """The exit code and the JSON, without what is of one cluster alone."""
    return answer.code, [json.loads(each, object_hook=_without) for each in _documents(answer.text)]


def _documents(text: str) -> list[str]:
    """The document that a command prints, or the lines of `consume`."""
    return text.splitlines() if text.startswith("{") and "\n " not in text else [text or "null"]


def _without(fields: dict[str, Json]) -> dict[str, Json]:
    return {name: fields[name] for name in fields if name not in _OF_ONE_CLUSTER}


def test_a_story_has_the_same_json_on_both(tmp_path: Path, tierlog: Tierlog) -> None:
    (tmp_path / "kafka").mkdir()
    with (
        KafkaNode(tmp_path / "kafka", heap="384m") as kafka,
        BrokerThread(tmp_path / "tierlog", {"node.id": "1"}) as ours,
    ):
        differences: list[str] = []
        refused: list[str] = []
        for words in STORY:
            answers: list[tuple[int, object]] = []
            for bootstrap in (kafka.bootstrap, ours.bootstrap):
                tierlog.bootstrap = bootstrap
                answers.append(compared(tierlog(*words, "--json", stdin=_RECORDS)))
            if answers[1][0] != 0:
                refused.append(" ".join(words))
            if answers[0] != answers[1]:
                differences.append(f"{' '.join(words)}\n  Kafka {answers[0]}\n  ours  {answers[1]}")
        tierlog.bootstrap = kafka.bootstrap
        tierlog.done("topic", "create", "shared")
        run_tool(
            "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
            *("--bootstrap-server", kafka.bootstrap, "--topic", "shared"),
            *("--group", "sharers", "--timeout-ms", "5000"),
            check=False,
        )
        of_shares = tierlog("group", "describe", "sharers")
    assert (of_shares.code, "is of type share: " in of_shares.err) == (1, True), of_shares
    assert not differences, "\n".join(differences)
    assert refused == REFUSED
