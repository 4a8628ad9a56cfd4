"""`tierlog serve` as a person meets it: one plain line for everything, and exit codes."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tierlog import __version__
from tierlog.bench.harness.requests.probe import free_port
from tierlog.tests import wire

from ..broker_process import BrokerProcess, RawClient

ROOT = Path(__file__).parent.parent.parent

READY = re.compile(
    rf"tierlog {re.escape(__version__)} ready on 127\.0\.0\.1:\d+ in \d+\.\d\d s, "
    r"status http://127\.0\.0\.1:\d+, remote tier file:///\S+"
)


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "tierlog.cli", *arguments],
        capture_output=True,
        text=True,
        cwd=directory,
        env={"PYTHONPATH": str(ROOT / ".namespace"), "PATH": ""},
        timeout=60,
        check=False,
    )


def refusal(directory: Path, *arguments: str) -> str:
    """The one line that a start that fails writes; nothing may have been made."""
    before = sorted(directory.iterdir())
    answer = run(directory, "serve", *arguments)
    assert answer.returncode == 1
    assert answer.stdout == ""
    lines = answer.stderr.strip().splitlines()
    assert len(lines) == 1, answer.stderr
    assert lines[0].startswith("tierlog: ")
    assert sorted(directory.iterdir()) == before
    return lines[0]


def test_it_says_its_version_and_explains_itself(tmp_path: Path) -> None:
    assert run(tmp_path, "--version").stdout.strip() == f"tierlog {__version__}"
    explained = run(tmp_path, "serve", "--help").stdout
    for word in ("--config", "--override", "rsm.config.url", "127.0.0.1:9092"):
        assert word in explained


@pytest.mark.parametrize(
    ("words", "commands"),
    [
        ([], ["serve", "topic", "tier", "consume"]),
        (["topic"], ["ls", "create"]),
        (["cluster"], ["up", "wait"]),
    ],
)
def test_a_command_that_needs_another_word_lists_them(
    tmp_path: Path, words: list[str], commands: list[str]
) -> None:
    answer = run(tmp_path, *words)
    assert (answer.returncode, answer.stdout) == (2, "")
    listed = [line.split()[0] for line in answer.stderr.splitlines() if line.startswith("    ")]
    assert set(commands) <= set(listed)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("serve --prot 9192", "arguments: --prot 9192; did you mean --port?"),
        (
            "serve --listeners PLAINTEXT://:9192",
            "; set the property with --override listeners=VALUE",
        ),
        ("serve --log-dirs=/tmp/x", "; set the property with --override log.dirs=VALUE"),
        ("tier ls --rsm.config.url=x", "; set the property with --override rsm.config.url=VALUE"),
        ("topic ls --bootstrap-server x:1", "; did you mean --bootstrap?"),
        ("topic ls more", "unrecognized arguments: more"),
    ],
)
def test_a_wrong_option_is_answered_with_the_right_one(
    tmp_path: Path, words: str, said: str
) -> None:
    answer = run(tmp_path, *words.split())
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.endswith(f"{said}\n")
    assert sorted(tmp_path.iterdir()) == []


def test_a_second_dev_broker_needs_a_port_and_a_directory(tmp_path: Path) -> None:
    words = ["--port", str(free_port()), "--data", f"{tmp_path}/second"]
    with BrokerProcess(words, tmp_path) as broker:
        assert broker.port == int(words[1])
        assert broker.ready_line.endswith(f"remote tier file://{tmp_path}/second/remote")
        assert broker.stop() == 0
    assert not (tmp_path / "data").exists()
    listed = run(tmp_path, "tier", "ls", "--data", f"{tmp_path}/second")
    assert listed.stdout == f"The tier file://{tmp_path}/second/remote holds no segment.\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("serve", 1, "gone, and data would be in it"),
        ("serve --override log.dirs=relative", 1, "gone, and relative would be in it"),
        ("tier ls", 2, "gone, and data would be in it"),
        ("secure init dev", 1, "gone, and dev would be in it"),
        ("cluster up", 2, "gone, and ./data-cluster would be in it"),
        ("cluster status", 2, "gone, and ./data-cluster would be in it"),
        ("serve --config file", 1, "The file file cannot be read"),
    ],
)
def test_a_directory_that_is_gone_is_one_line(
    tmp_path: Path, words: str, code: int, said: str
) -> None:
    answer = in_a_directory_that_is_gone(tmp_path, *words.split())
    assert (answer.returncode, answer.stdout) == (code, "")
    assert len(answer.stderr.splitlines()) == 1
    assert said in answer.stderr


def test_absolute_paths_need_no_current_directory(tmp_path: Path) -> None:
    words = ["--port", "0", "--data", f"{tmp_path}/data"]
    with BrokerProcess(words, tmp_path, before=INTO_A_DIRECTORY_THAT_IS_GONE) as broker:
        assert broker.ready_line.endswith(f"remote tier file://{tmp_path}/data/remote")
        assert broker.stop() == 0
    assert "Traceback" not in broker.log.read_text()


INTO_A_DIRECTORY_THAT_IS_GONE = [
    *("sh", "-c", 'mkdir gone && cd gone && rmdir "$PWD" && exec "$@"', "sh")
]


def in_a_directory_that_is_gone(
    directory: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    command = [sys.executable, "-m", "tierlog.cli", *arguments]
    return subprocess.run(
        [*INTO_A_DIRECTORY_THAT_IS_GONE, *command],
        capture_output=True,
        text=True,
        cwd=directory,
        env={"PYTHONPATH": str(ROOT / ".namespace"), "PATH": os.environ["PATH"]},
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("num.partitions=none", "Invalid value none for configuration num.partitions"),
        ("process.roles=broker", "Missing required configuration"),
        ("listeners=9092", "is not a listener"),
        ("nonsense", "not of the form name=value"),
        ("rsm.config.url=nowhere", "needs a URL with a protocol"),
        ("rsm.config.url=s4://bucket/x", "no file system for s4://; did you mean s3://?"),
        ("rsm.config.url=s3:///prefix", "s3:///prefix has no bucket: use s3://bucket/prefix"),
        ("rsm.config.url=oss://bucket/x", "'ossfs', which is not installed: pip install ossfs"),
        (
            "rsm.config.url=https://bucket.s3.amazonaws.com/x",
            "nothing can be written with https://. Use s3://bucket/x.",
        ),
        ("rsm.config.url=file:///dev/null/x", "/dev/null is a file: name a directory."),
        ("tierlog.mount.other.url=file:///dev/null", "/dev/null is a file: name a directory."),
        ("tierlog.mount.other.url=s4://bucket/x", "no file system for s4://"),
        ("rlmm.config.remote.log.metadata.topic.num.partitions=0", "Value must be at least 1"),
        ("tierlog.scrub.interval.ms=0", "Value must be at least 1, or -1"),
        ("max.connections.per.ip.overrides=lots", "is not address:limit"),
    ],
)
def test_a_bad_value_is_one_line_and_nothing_is_started(
    tmp_path: Path, override: str, words: str
) -> None:
    assert words in refusal(tmp_path, "--override", override)


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path, "--config", "absent.properties")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8 text: save it as UTF-8" in refusal(tmp_path, "--config", "binary")


def test_a_port_in_use_is_one_line_and_the_data_is_not_touched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"listeners=PLAINTEXT://127.0.0.1:{other.getsockname()[1]}"
        line = refusal(tmp_path, "--override", address)
    assert "Cannot listen on 127.0.0.1" in line
    assert line.endswith(
        "in use: stop the process that listens there, or set another port in listeners."
    )


def test_a_port_that_has_the_page_of_another_broker_is_one_line_that_says_so(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with BrokerProcess.on(first) as broker:
        page = re.search(r"status (http://127\.0\.0\.1:(\d+)),", broker.ready_line)
        assert page is not None
        line = refusal(second, "--port", page[2])
    assert line == (
        f"tierlog: Cannot listen on 127.0.0.1:{page[2]}: Address already in use: {page[1]} is the"
        " status page of another tierlog. Set another port here in listeners, or there in"
        " tierlog.status.port."
    )


def test_an_address_that_cannot_be_resolved_is_one_line(tmp_path: Path) -> None:
    line = refusal(tmp_path, "--override", "listeners=PLAINTEXT://nobody.invalid:0")
    assert line.startswith("tierlog: Cannot listen on nobody.invalid:0: ")
    assert line.endswith(": set an address of this machine in listeners.")


def test_a_file_as_kafkas_start_script_takes_it_is_answered_with_config(tmp_path: Path) -> None:
    answer = run(tmp_path, "serve", "server.properties")
    assert answer.returncode == 2
    assert answer.stderr.endswith("arguments: server.properties; name a file with --config\n")
    assert "usage: tierlog serve" in answer.stderr


def test_a_directory_that_cannot_be_one_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    arguments = ("--override", "log.dirs=file", "--override", "listeners=PLAINTEXT://127.0.0.1:0")
    line = refusal(tmp_path, *arguments)
    assert line.endswith("file cannot be used: File exists: name a directory in log.dirs.")


def test_a_directory_that_may_not_be_written_is_one_line(tmp_path: Path) -> None:
    arguments = ("--override", "log.dirs=/proc/tierlog")
    line = refusal(tmp_path, *arguments, "--override", "listeners=PLAINTEXT://127.0.0.1:0")
    assert line == (
        "tierlog: /proc/tierlog cannot be used: No such file or directory: set a path in "
        "log.dirs where a directory can be created."
    )


def test_a_second_process_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with BrokerProcess.on(tmp_path):
        second = BrokerProcess.on(tmp_path)
        assert second.process.wait(60) == 1
        said = second.log.read_text()
        assert "in use by another process: stop that process, or use another directory" in said
        second.close()


def test_the_ready_line_says_who_where_how_fast_and_which_tier(tmp_path: Path) -> None:
    with BrokerProcess.on(tmp_path) as broker:
        assert READY.fullmatch(broker.ready_line)
        with RawClient(broker.port) as client:
            answer = client.ask(wire.MetadataRequest(topics=None), 12, wire.MetadataResponse)
        assert [(each.host, each.port) for each in answer.brokers] == [("127.0.0.1", broker.port)]
        assert broker.stop() == 0
    assert "Traceback" not in broker.log.read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.usefixtures("hangups_end_processes")
def test_it_stops_cleanly_and_finds_everything_again(tmp_path: Path, number: int) -> None:
    topics = [wire.CreatableTopic(name="kept", num_partitions=3, replication_factor=1)]
    with BrokerProcess.on(tmp_path) as broker:
        with RawClient(broker.port) as client:
            created = client.ask(
                wire.CreateTopicsRequest(topics=topics), 7, wire.CreateTopicsResponse
            )
            assert broker.stop(number) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    with BrokerProcess.on(tmp_path) as broker, RawClient(broker.port) as client:
        found = client.ask(wire.MetadataRequest(topics=None), 12, wire.MetadataResponse)
    assert [(each.name, each.topic_id) for each in found.topics] == [
        ("kept", created.topics[0].topic_id)
    ]
    assert [each.error_code for each in found.topics[0].partitions] == [0, 0, 0]


def test_it_stops_cleanly_under_load_and_every_answer_it_gave_holds(tmp_path: Path) -> None:
    acknowledged: list[int] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is None and offset is not None:
            acknowledged.append(offset)

    properties = {"listeners": f"PLAINTEXT://127.0.0.1:{free_port()}"}
    with BrokerProcess.on(tmp_path, properties) as broker:
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "acks": "all", "message.timeout.ms": 3_000}
        )
        while len(acknowledged) < 2_000:
            producer.produce("loaded", b"x" * 500, on_delivery=delivered)
            producer.poll(0)
        assert broker.stop() == 0
        producer.flush(20)
    assert "Traceback" not in broker.log.read_text()
    with BrokerProcess.on(tmp_path, properties) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none"})
        ends = consumer.get_watermark_offsets(TopicPartition("loaded", 0), 30)
        consumer.close()
        assert "Traceback" not in broker.log.read_text()
    assert ends is not None
    assert ends[1] > max(acknowledged)


def test_a_kafka_nodes_file_is_served_and_what_is_not_known_is_said(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text(
        f"process.roles=broker,controller\n"
        f"node.id=7\n"
        f"controller.quorum.voters=7@localhost:9093\n"
        f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        f"controller.listener.names=CONTROLLER\n"
        f"log.dirs={tmp_path}/logs\n"
        f"num.network.threads=3\n"
        f"log.retenton.hours=1\n"
    )
    with BrokerProcess(["--config", "server.properties"], tmp_path) as broker:
        assert broker.ready_line.endswith("no remote tier")
        with RawClient(broker.port) as client:
            answer = client.ask(wire.MetadataRequest(topics=[]), 12, wire.MetadataResponse)
        assert [each.node_id for each in answer.brokers] == [7]
    log = broker.log.read_text()
    assert "Unknown property log.retenton.hours; did you mean log.retention.hours?" in log
    assert "1 of Kafka's properties have no effect here: num.network.threads" in log


def python(directory: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in Python to its end."""
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=directory,
        env={"PYTHONPATH": str(ROOT / ".namespace"), "PATH": ""},
        timeout=60,
        check=False,
    )


INTERRUPTED = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.modules.pop({module!r}, None)
sys.meta_path.insert(0, Interrupt())
import tierlog.cli.__main__
"""


BETWEEN = """
import os, signal, sys
sys.argv[1:] = {words!r}
from tierlog.cli.__main__ import main
os.kill(os.getpid(), signal.{name})
main()
"""


@pytest.mark.parametrize(("words", "code"), [(["serve"], 0), (["topic", "ls"], 130)])
def test_ctrl_c_between_the_import_and_the_call_is_no_traceback(
    tmp_path: Path, words: list[str], code: int
) -> None:
    """The script that pip makes of an entry point does a little between the two."""
    ended = python(tmp_path, BETWEEN.format(words=words, name="SIGINT"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "")


def test_a_command_that_is_stopped_before_it_began_has_not_succeeded(tmp_path: Path) -> None:
    ended = python(tmp_path, BETWEEN.format(words=["tier", "verify"], name="SIGTERM"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (143, "", "")


@pytest.mark.parametrize("module", ["signal", "typing"])
def test_ctrl_c_before_anybody_listens_is_no_traceback(tmp_path: Path, module: str) -> None:
    ended = python(tmp_path, INTERRUPTED.format(module=module))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
