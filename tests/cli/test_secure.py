"""`tierlog secure init`: a directory with all that a secured broker needs; it starts as it is."""

import os
import re
import shutil
import ssl
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tierlog.bench.harness.loads.defaults.programs import built
from tierlog.bench.harness.processes.kafka_peer import kafka_jars
from tierlog.bench.harness.requests.probe import free_port
from tierlog.cli.command_line import run
from tierlog.cli.secure_texts import (
    TOPIC,
    SecuredBroker,
    client_lines,
    client_properties,
    server_properties,
)
from tierlog.clients.properties import parse_properties
from tierlog.tests.broker_process import BrokerProcess
from tierlog.tests.house_rules import ROOT
from tierlog.tests.waiting import wait_until


def page_program(page: Path, language: str, index: int = 0) -> str:
    """A program of the clients' page."""
    blocks = re.finditer(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [str(each[1]) for each in blocks][index]


def librdkafka(directory: Path) -> dict[str, object]:
    """A client's settings."""
    java = parse_properties((directory / "client.properties").read_text())
    return {
        "bootstrap.servers": java["bootstrap.servers"],
        "security.protocol": java["security.protocol"],
        "ssl.ca.location": str(directory / "ca.pem"),
        "sasl.mechanisms": java["sasl.mechanism"],
        "sasl.username": "admin",
        "sasl.password": (directory / "password").read_text(),
    }


def values_of(client: Mapping[str, object], count: int) -> set[bytes]:
    """The values of the first records of the topic that the programs write to."""
    consumer = Consumer({**client, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    records = [record for _ in range(count) if (record := consumer.poll(30)) is not None]
    consumer.close()
    return {record.value() or b"" for record in records}


def test_only_the_owner_reads_what_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = os.umask(0)
    try:
        assert run(["secure", "init", "below/dev"], 0) == 0
    finally:
        os.umask(before)
    directory = tmp_path / "below" / "dev"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    files = {each.name: each for each in directory.iterdir() if each.is_file()}
    assert set(files) == {
        *("server.properties", "client.properties", "clients.md", "password"),
        *("ca.pem", "ca.key", "broker.pem"),
    }
    assert {stat.S_IMODE(each.stat().st_mode) for each in files.values()} == {0o600}
    password = files["password"].read_text()
    assert len(password) == 32
    holders = [name for name, each in files.items() if password in each.read_text()]
    assert sorted(holders) == ["client.properties", "password"]
    output, errors = capsys.readouterr()
    assert errors == ""
    assert password not in output
    assert "tierlog serve --config below/dev/server.properties" in output
    assert [each.name for each in (tmp_path / "below").iterdir()] == ["dev"]


@pytest.mark.parametrize("occupied", ["directory", "file", "link"])
def test_nothing_is_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], occupied: str
) -> None:
    place = tmp_path / "dev"
    if occupied == "directory":
        place.mkdir()
    elif occupied == "file":
        place.write_text("mine")
    else:
        place.symlink_to(tmp_path / "absent")
    assert run(["secure", "init", str(place)], 0) == 1
    output, errors = capsys.readouterr()
    assert output == ""
    assert len(errors.splitlines()) == 1
    assert errors.startswith(f"{place} exists, and nothing in it is overwritten")
    assert list(tmp_path.iterdir()) == [place]
    assert occupied != "directory" or list(place.iterdir()) == []
    assert occupied != "file" or place.read_text() == "mine"


def test_of_two_at_once_the_second_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is done while this one formats its data directory."""
    place = tmp_path / "dev"

    def formatted_meanwhile(*_: object) -> None:
        place.mkdir()
        (place / "ca.key").write_text("of the other")

    monkeypatch.setattr("tierlog.cli.secure.write_formatted", formatted_meanwhile)
    assert run(["secure", "init", str(place)], 0) == 1
    errors = capsys.readouterr().err
    assert errors.startswith(f"{place} exists, and nothing in it is overwritten")
    assert [each.name for each in tmp_path.rglob("*")] == ["dev", "ca.key"]
    assert (place / "ca.key").read_text() == "of the other"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "no host"], "--host no host is neither a host name nor an address."),
        (["--host", "0.0.0.0"], "is neither a host name nor an address"),
        (["--host", "300.1.2.3"], "is neither a host name nor an address"),
        (["--host", f"{'a' * 64}.org"], "is neither a host name nor an address"),
        (["--port", "0"], "--port 0 is not between 1 and 65534"),
        (["--port", "65535"], "--port 65535 is not between 1 and 65534"),
        (["--user", "a;User:b"], "--user a;User:b is not 1 to 64 letters"),
        (["--user", ""], "is not 1 to 64 letters"),
        (["--days", "826"], "--days 826 is not between 1 and 825"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(["secure", "init", str(tmp_path / "dev"), *arguments], 0) == 1
    errors = capsys.readouterr().err
    assert words in errors
    assert len(errors.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_without_the_package_a_sentence_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert run(["secure", "init", str(tmp_path / "dev")], 0) == 1
    assert capsys.readouterr().err == (
        "tierlog secure needs the Python package cryptography, which is not installed:"
        " pip install cryptography\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("names_the_file", [True, False])
def test_a_failure_halfway_leaves_nothing(
    names_the_file: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = str(tmp_path / "dev")

    def full(*_: object) -> None:
        # A write names no file; an open does.
        raise OSError(28, "No space left on device", *([directory] if names_the_file else []))

    monkeypatch.setattr("tierlog.cli.secure.write_formatted", full)
    assert run(["secure", "init", directory], 0) == 1
    assert capsys.readouterr().err == (
        f"{directory} cannot be written: No space left on device. Nothing was left behind."
        " Fix this, or name another directory.\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_the_certificate_satisfies_the_strictest_check(tmp_path: Path) -> None:
    """Handshakes in memory, at each name of the certificate, and at another."""
    directory = tmp_path / "dev"
    assert run(["secure", "init", str(directory), "--host", "kafka.example.org"], 0) == 0
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(directory / "broker.pem")
    theirs = ssl.create_default_context(cafile=str(directory / "ca.pem"))
    theirs.verify_flags |= ssl.VERIFY_X509_STRICT
    for name in ("kafka.example.org", "localhost", "127.0.0.1", "::1"):
        _shake_hands(ours, theirs, name)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        _shake_hands(ours, theirs, "other.example.org")
    file = (directory / "server.properties").read_text()
    assert "listeners=SASL_SSL://:9093,NODES://127.0.0.1:9094\n" in file
    assert "advertised.listeners=SASL_SSL://kafka.example.org:9093,NODES://localhost" in file


def _shake_hands(ours: ssl.SSLContext, theirs: ssl.SSLContext, name: str) -> None:
    to_us, to_them = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = ours.wrap_bio(to_us, to_them, server_side=True)
    client = theirs.wrap_bio(to_them, to_us, server_hostname=name)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


def test_a_path_of_any_letters_survives_every_file() -> None:
    broker = SecuredBroker("/home/Zoë's \\ 𝄞 <CA>", "::1", 9093, "admin")
    file = parse_properties(server_properties(broker))
    assert file["ssl.truststore.location"].encode("utf-16", "surrogatepass").decode("utf-16") == (
        broker.path("ca.pem")
    )
    assert file["listeners"] == "SASL_SSL://[::1]:9093,NODES://127.0.0.1:9094"
    assert client_properties(broker, "x").isascii()
    page = client_lines(broker)
    assert 'ssl.ca.location": "/home/Zoë\'s \\\\ 𝄞 <CA>/ca.pem"' in page
    assert "'/home/Zoë'\"'\"'s \\ 𝄞 <CA>/client.properties'" in page


@pytest.mark.slow
def test_the_broker_starts_and_lets_in_who_has_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["secure", "init", "dev", "--port", str(free_port())], 0) == 0
    password = Path("dev/password").read_text()
    client = librdkafka(Path("dev"))
    errors: list[KafkaError] = []
    stranger = {**client, "sasl.password": "guess", "log_level": 0, "error_cb": errors.append}
    with BrokerProcess(["--config", "dev/server.properties"], tmp_path) as broker:
        program = page_program(Path("dev/clients.md"), "python")
        subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
        assert values_of(client, 1) == {b"confluent-kafka"}
        assert run(["topic", "ls", "--names", "--command-config", "dev/client.properties"], 0) == 0
        assert capfd.readouterr().out.splitlines()[-1] == TOPIC
        producer = Producer(stranger)
        wait_until(lambda: producer.poll(0.1) > 0 or bool(errors), 30, "no error of the stranger")
        assert errors[0].code() == KafkaError._AUTHENTICATION
        producer.purge()
        assert broker.stop() == 0
    log = broker.log.read_text()
    assert password not in log
    warnings = [line for line in log.splitlines() if "WARNING" in line]
    assert all("authentication with SCRAM-SHA-512 failed" in line for line in warnings)


@pytest.mark.long
@pytest.mark.requires("java", "mvn", "go", "node")
def test_each_program_of_the_clients_page_runs_as_it_is(tmp_path: Path) -> None:
    directory = tmp_path / "dev"
    assert run(["secure", "init", str(directory), "--port", str(free_port())], 0) == 0
    page = directory / "clients.md"
    java = tmp_path / "Hello.java"
    java.write_text(page_program(page, "java"))
    go = tmp_path / "go"
    go.mkdir()
    (go / "main.go").write_text(page_program(page, "go"))
    for name in ("go.mod", "go.sum"):
        shutil.copy(ROOT / "bench/harness/loads/defaults/go" / name, go)
    commands = [
        *([sys.executable, "-c", page_program(page, "python", index)] for index in range(2)),
        ["java", "-cp", f"{kafka_jars()}/*", str(java)],
        ["go", "run", "-C", str(go), "."],
        ["node", "-e", page_program(page, "js")],
    ]
    modules = {**os.environ, "NODE_PATH": str(built("kafkajs") / "node_modules")}
    with BrokerProcess(["--config", str(directory / "server.properties")], tmp_path) as broker:
        for command in commands:
            subprocess.run(command, check=True, timeout=120, env=modules)
        clients = {b"confluent-kafka", b"aiokafka", b"Java", b"franz-go", b"kafkajs"}
        assert values_of(librdkafka(directory), len(clients)) == clients
        assert broker.stop() == 0
    assert "WARNING" not in broker.log.read_text()
