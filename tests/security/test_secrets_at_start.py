"""What keeps a broker from starting, or a command from working, is said without any secret."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tierlog.broker.config.config import config_warnings
from tierlog.cli.command_line import run
from tierlog.cli.configuration import stated_configuration
from tierlog.clients.errors import KafkaError
from tierlog.security.tls.context import server_context

from ..cli.formatted_node import Node
from .planted_secrets import PlantedSecrets, files_below
from .tls.certificates import broker_certificate, chain_text, encrypted_key_text, key_text
from .tls.pkcs12_stores import key_store

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
PROVIDER = "org.apache.kafka.common.config.provider"
SASL = ("listeners=SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms=PLAIN")
SSL = ("listeners=SSL://127.0.0.1:0", "ssl.keystore.type=PEM", "ssl.truststore.type=PEM")
FILE = ("config.providers=file", f"config.providers.file.class={PROVIDER}.FileConfigProvider")
TIER = ("listeners=PLAINTEXT://127.0.0.1:0",)


class WrongFile(NamedTuple):
    """Lines of a properties file around a secret, which stands where ``SECRET`` is."""

    name: str
    lines: tuple[str, ...]
    said: str = ""
    """Words of the refusal; empty if there are warnings only."""


def _jaas(value: str) -> tuple[str, ...]:
    return (*SASL, f"{JAAS}={value}")


FILES = [
    WrongFile("quote", _jaas(f'{PLAIN_MODULE} required user_a="SECRET;'), "is a quote missing"),
    WrongFile("semicolon", _jaas(f'{PLAIN_MODULE} required user_a="SECRET"'), "semicolon"),
    WrongFile("twice", _jaas(f"{PLAIN_MODULE} required user_a=SECRET user_a=SECRET;"), "twice"),
    WrongFile("flag", _jaas(f"{PLAIN_MODULE} SECRET user_a=b;"), "control flag"),
    WrongFile("no value", _jaas(f'{PLAIN_MODULE} required user_a "SECRET";'), "key=value"),
    WrongFile("two", _jaas(f"{PLAIN_MODULE} required a=SECRET; B required;"), "more than one"),
    WrongFile("class", _jaas("SECRET required user_a=b;"), "not supported"),
    WrongFile("other class", _jaas("com.sun.JndiLoginModule required a=SECRET;"), "supported"),
    WrongFile("bare password", _jaas("SECRET"), "control flag"),
    WrongFile(
        "other module",
        _jaas("x.ScramLoginModule required username=u password=SECRET;"),
        "ScramLoginModule",
    ),
    WrongFile("no user", (*SASL, f"sasl.jaas.config={PLAIN_MODULE} required a=SECRET;"), "users"),
    WrongFile(
        "key store password",
        (*SSL, "ssl.keystore.location=broker.pem", "ssl.keystore.password=SECRET"),
        "ssl.keystore.password",
    ),
    WrongFile("idle store password", (*SSL, "ssl.keystore.password=SECRET"), "without"),
    WrongFile(
        "trust store password",
        (*SSL, "ssl.keystore.location=broker.pem", "ssl.truststore.password=SECRET"),
        "ssl.truststore.password",
    ),
    WrongFile("key without chain", (*SSL, "ssl.keystore.key=SECRET"), "certificate.chain"),
    WrongFile(
        "chain without key", (*SSL, "ssl.keystore.certificate.chain=SECRET"), "ssl.keystore.key"
    ),
    WrongFile(
        "file and key",
        (*SSL, "ssl.keystore.location=broker.pem", "ssl.keystore.key=SECRET"),
        "not both",
    ),
    WrongFile(
        "key that is none",
        (*SSL, "ssl.keystore.key=SECRET", "ssl.keystore.certificate.chain=SECRET"),
        "private key",
    ),
    WrongFile(
        "wrong key password",
        (*SSL, "ssl.keystore.location=encrypted.pem", "ssl.key.password=SECRET"),
        "ssl.key.password",
    ),
    WrongFile(
        "key password of a key without one",
        (*SSL, "ssl.keystore.location=broker.pem", "ssl.key.password=SECRET"),
    ),
    WrongFile(
        "misspelt property of TLS",
        (*SSL, "ssl.keystore.location=broker.pem", "ssl.key.pasword=SECRET"),
        "ssl.key.password",
    ),
    WrongFile(
        "wrong password of a key store",
        (
            "listeners=SSL://127.0.0.1:0",
            "ssl.keystore.type=PKCS12",
            "ssl.keystore.location=broker.p12",
            "ssl.keystore.password=SECRET",
        ),
        "its password does not open it",
    ),
    WrongFile("upper case", (*SASL, f"{JAAS.upper()}=SECRET"), "users of PLAIN"),
    WrongFile("value for a number", (*FILE, "num.partitions=${file:store:one}"), "num.partitions"),
    WrongFile(
        "value for a switch",
        (*FILE, "auto.create.topics.enable=a ${file:store:one} b"),
        "true or false",
    ),
    WrongFile("value for a choice", (*FILE, "compression.type=${file:store:one}"), "one of"),
    WrongFile(
        "value for an address", (*FILE, "listeners=PLAINTEXT://u:${file:store:one}@h:1"), "listener"
    ),
    WrongFile("value for mechanisms", (*FILE, *SASL, "sasl.enabled.mechanisms=${file:store:one}")),
    WrongFile("value for super users", (*FILE, "super.users=${file:store:one}")),
    WrongFile("escape", (*TIER, r"my.password=\uSECRET"), "Unicode escape"),
    WrongFile("colon", (*TIER, "rsm.config.url=s3:SECRET"), "protocol"),
    WrongFile("chained URL", (*TIER, "rsm.config.url=simplecache::s3://a:SECRET@b/c"), "chained"),
    WrongFile("no bucket", (*TIER, "rsm.config.url=s3:///b?sig=SECRET"), "bucket"),
    WrongFile(
        "two options",
        (*TIER, "rsm.config.url=s3://b/c", "rsm.config.option.a=SECRET", "rsm.config.option.a.b=1"),
        "value and options",
    ),
    WrongFile(
        "port of the URL", (*TIER, "rsm.config.url=sftp://u:SECRET@host:port/x", "num.partitions=x")
    ),
    WrongFile(
        "metadata client",
        (
            *TIER,
            "rsm.config.url=file:///tmp/x",
            "rlmm.config.remote.log.metadata.common.client.sasl.jaas.config=SECRET",
        ),
    ),
    WrongFile(
        "client of the metadata",
        (
            *TIER,
            "rsm.config.url=file:///tmp/x",
            "rlmm.config.remote.log.metadata.common.client.security.protocol=SASL_SSL",
            "rlmm.config.remote.log.metadata.common.client.sasl.jaas.config=SECRET",
        ),
    ),
    WrongFile("line before", ("SECRET", "num.partitions=x"), "num.partitions"),
]


def _said(file: Path, overrides: list[str]) -> str:
    """All that is said of a configuration, with the trace behind it."""
    try:
        config = stated_configuration(str(file), overrides)
        for settings in config.tls.values():
            server_context(settings)
    except KafkaError as error:
        return "".join([error.message, *traceback.format_exception(error)])
    return "\n".join([repr(config), *config_warnings(config)])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    certificate = broker_certificate()
    (tmp_path / "broker.pem").write_text(key_text(certificate) + chain_text(certificate))
    (tmp_path / "broker.p12").write_bytes(key_store(certificate, []))
    encrypted = encrypted_key_text(certificate, "another password")
    (tmp_path / "encrypted.pem").write_text(encrypted + chain_text(certificate))
    return tmp_path


@pytest.mark.parametrize("wrong", FILES, ids=lambda wrong: wrong.name)
def test_a_wrong_file_is_refused_without_its_secret(folder: Path, wrong: WrongFile) -> None:
    planted = PlantedSecrets()
    secret = planted.text(wrong.name)
    (folder / "store").write_text(f"one={secret}\n")
    file = folder / "server.properties"
    file.write_text("\n".join(wrong.lines).replace("SECRET", secret))
    said = _said(file, ["log.dirs=/tmp/unused"])
    assert planted.leaks({"what is said": said.encode()}) == set()
    assert wrong.said in said


@pytest.mark.parametrize("form", ["{}", "my.password {}", "ssl.key.password:{}", "={}"])
def test_an_override_that_is_none_is_not_repeated(folder: Path, form: str) -> None:
    planted = PlantedSecrets()
    file = folder / "server.properties"
    file.write_text("listeners=PLAINTEXT://127.0.0.1:0")
    said = _said(file, [form.format(planted.text(form))])
    assert "is not of the form name=value" in said
    assert planted.leaks({"what is said": said.encode()}) == set()


Argument = Callable[[str], str]
ARGUMENTS: dict[str, tuple[Argument, str]] = {
    "comma": (lambda p: f"SCRAM-SHA-256=[name=alice,password=a,{p}=b]", "SCRAM"),
    "comma without equals": (lambda p: f"SCRAM-SHA-256=[name=alice,password=a,{p}]", "equals"),
    "iterations": (lambda p: f"SCRAM-SHA-256=[name=alice,iterations={p},password=a]", "iterations"),
    "mechanism": (lambda p: f"{p}=[name=alice,password=a]", "mechanism"),
    "no mechanism": (lambda p: f"alice:{p}", "equals sign"),
    "no bracket": (lambda p: f"SCRAM-SHA-256=name=alice,password={p}", "["),
    "no end": (lambda p: f"SCRAM-SHA-256=[name=alice,password={p}", "]"),
    "no name": (lambda p: f"SCRAM-SHA-256=[password={p}]", "name"),
    "salt": (lambda p: f"SCRAM-SHA-256=[name=a,salt={p}!,password=x]", "base64"),
    "salted": (lambda p: f"SCRAM-SHA-256=[name=a,salt=AAAA,saltedpassword={p}!]", "base64"),
    "few": (lambda p: f"SCRAM-SHA-256=[name=a,iterations=1,password={p}]", ">= 4096"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_user_that_is_refused_is_not_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    planted = PlantedSecrets()
    make, words = ARGUMENTS[name]
    assert Node(tmp_path).format("--add-scram", make(planted.text(name))) == 1
    said = capsys.readouterr()
    assert words in said.err
    assert planted.leaks({"out": said.out.encode(), "err": said.err.encode()}) == set()


def test_a_password_is_nowhere_in_the_directories(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planted = PlantedSecrets()
    user = f"SCRAM-SHA-512=[name=alice,password={planted.text('password')}]"
    assert Node(tmp_path).format("--add-scram", user) == 0
    places = {str(each): each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
    said = capsys.readouterr()
    places |= {"out": said.out.encode(), "err": said.err.encode()}
    assert planted.leaks(places) == set()


@pytest.mark.parametrize(
    "words",
    [
        ("config", "set", "broker", "0", "ssl.key.password:{}"),
        ("config", "set", "broker", "0", "{}"),
        ("topic", "ls", "-X", "sasl.password:{}"),
        ("topic", "ls", "-X", "sasl.pasword={}"),
        ("topic", "ls", "-X", "ssl.key.password={}"),
        ("topic", "ls", "-X", "ssl.key.pem={}", "-X", "security.protocol=SSL"),
        ("topic", "ls", "-X", "sasl.jaas.config={}"),
        ("topic", "ls", "-X", "security.protocol=SSL", "-X", "ssl.keystore.key={}"),
    ],
    ids=lambda words: " ".join(words[:2] + words[-1:]),
)
def test_a_command_does_not_repeat_a_wrong_argument(
    folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    planted = PlantedSecrets()
    secret = planted.text("argument")
    arguments = [each.format(secret) for each in words]
    code = run([*arguments, "-b", "127.0.0.1:1"], 0)
    said = capsys.readouterr()
    assert code != 0, said
    assert planted.leaks({"out": said.out.encode(), "err": said.err.encode()}) == set()


def test_a_new_secured_broker_has_its_secrets_in_private_files_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "dev"
    assert run(["secure", "init", str(directory)], 0) == 0
    said = capsys.readouterr()
    planted = PlantedSecrets()
    planted.add("password", (directory / "password").read_text().strip())
    for name in ("ca.key", "broker.pem"):
        planted.key(name, (directory / name).read_text())
    places = files_below(directory) | {"out": said.out.encode(), "err": said.err.encode()}
    holders = {each.partition(" in ")[2] for each in planted.leaks(places)}
    assert holders == {"password", "client.properties", "ca.key", "broker.pem"}
    private = [directory, *(directory / each for each in holders)]
    assert all(each.stat().st_mode & 0o077 == 0 for each in private)
