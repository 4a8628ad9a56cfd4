"""No secret of a broker's file, of its clients or of those who are not let in comes to light.

A broker has secrets in its properties in every form, and clients send it more, rightly and
wrongly. Then each place where one could show up is searched: the log with all levels on, metrics,
status pages, all answers over the wire, the stacks that a signal asks for, the process list, the
environment of what was started, and the files.
"""

import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.messages.alter_configs import (
    AlterableConfig as WholeConfig,
    AlterConfigsRequest,
    AlterConfigsResource as WholeResource,
)
from tierlog.clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.replication.metadata.cluster_image import ConfigResourceType
from tierlog.tests import wire

from ..broker_process import BrokerProcess
from ..waiting import wait_until
from .planted_secrets import environments, files_below, process_list
from .sasl.oauth.tokens import claims, message, unsecured
from .secrets_stage import Stage, Watched
from .tls.certificates import authority, key_text

AT_LEAST = 40
PAGES = (
    *("metrics", "healthz", "ready", "", "status.js"),
    *(f"api/v1/{each}" for each in ("overview", "topics", "groups", "tier", "brokers")),
    *("api/v1/topics/orders", "api/v1/topics/orders/fetch", "tables", "tables/tier"),
)


def log_in(client: Watched, token: bytes, mechanism: str = "PLAIN") -> int:
    """The error code of a login with one token."""
    client.ask(wire.SaslHandshakeRequest(mechanism=mechanism), 1, wire.SaslHandshakeResponse)
    request = wire.SaslAuthenticateRequest(auth_bytes=token)
    return client.ask(request, 2, wire.SaslAuthenticateResponse).error_code


def strangers(stage: Stage) -> None:
    """Logins that fail, each in its way, and one that does not."""
    text = stage.planted.text
    failing: dict[str, tuple[str, bytes]] = {
        "wrong password": ("PLAIN", b"\0alice\0%s"),
        "password of an unknown user": ("PLAIN", b"\0nobody\0%s"),
        "password with another identity": ("PLAIN", b"bob\0alice\0%s"),
        "password in four parts": ("PLAIN", b"\0alice\0x\0%s"),
        "password instead of a user": ("PLAIN", b"%s"),
        "password that is not UTF-8": ("PLAIN", b"\0alice\0\xff%s"),
        "password as a user": ("PLAIN", b"\0%s\0"),
        "extension of SCRAM": ("SCRAM-SHA-256", b"n,,m=%s,n=alice,r=abc"),
        "SCRAM without a name": ("SCRAM-SHA-256", b"n,,p=%s"),
        "PLAIN sent to SCRAM": ("SCRAM-SHA-256", b"\0alice\0%s"),
        "binding of SCRAM": ("SCRAM-SHA-256", b"p=%s,,n=alice,r=abc"),
    }
    for name, (mechanism, token) in failing.items():
        with stage.client("SASL_PLAINTEXT") as client:
            assert log_in(client, token % text(name).encode(), mechanism) == 58
            client.drain()
    with stage.client("SASL_PLAINTEXT") as client:
        client.send(wire.SaslHandshakeRequest(mechanism=text("password as a mechanism")), 1)
        client.drain()
    with stage.client("SASL_PLAINTEXT") as client:
        client.ask(
            wire.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1, wire.SaslHandshakeResponse
        )
        begin = wire.SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc")
        client.ask(begin, 2, wire.SaslAuthenticateResponse)
        proof = f"c=biws,r={text('nonce of SCRAM')},p={text('proof of SCRAM')}".encode()
        client.raw(wire.SaslAuthenticateRequest(auth_bytes=proof), 2)
        client.drain()
    with stage.client("SASL_SSL") as client:
        client.socket.sendall(text("no TLS at all").encode() * 100)
        client.drain()
    with stage.client("SASL_PLAINTEXT") as client:
        bearer = f"n,,\x01auth=Bearer {text('token of GSSAPI')}\x01\x01".encode()
        client.send(wire.SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        client.raw(wire.SaslAuthenticateRequest(auth_bytes=bearer), 2)
        client.drain()
    with stage.client("SASL_PLAINTEXT") as client:
        client.send_frame(b"\0alice\0" + text("token before the handshake").encode())
        client.drain()
    with stage.client("SASL_PLAINTEXT") as client:
        client.ask(wire.SaslHandshakeRequest(mechanism="PLAIN"), 0, wire.SaslHandshakeResponse)
        client.send_frame(b"\0alice\0" + text("token without a frame").encode())
        client.drain()
    with stage.client("SASL_PLAINTEXT") as client:
        client.ask(wire.SaslHandshakeRequest(mechanism="PLAIN"), 1, wire.SaslHandshakeResponse)
        token = b"\0alice\0" + text("half a token").encode()
        client.raw(wire.SaslAuthenticateRequest(auth_bytes=token), 2, cut=3)
    with stage.client("SASL_PLAINTEXT") as client:
        client.ask(wire.SaslHandshakeRequest(mechanism="PLAIN"), 1, wire.SaslHandshakeResponse)
        produced(client, text("record before the login"))
        client.drain()
    for listener in ("SSL", "SASL_SSL", "PLAINTEXT"):
        with stage.client(listener) as client:
            password = text(f"plain text to {listener}")
            client.send_frame(b"\0alice\0" + password.encode())
            client.drain()
    with stage.client() as client:
        header = text("bearer token sent to the wrong port")
        client.socket.sendall(f"GET / HTTP/1.1\r\nAuthorization: Bearer {header}\r\n\r\n".encode())
        client.drain()


def bearers(stage: Stage) -> None:
    """Tokens that are accepted, refused, or none at all."""
    text, now = stage.planted.text, int(time.time())
    tokens = {
        "good token": unsecured(claims(now, jti=text("claim of a good token"))),
        "old token": unsecured(claims(now, exp=now - 600, jti=text("claim of an old token"))),
        "no token": text("token that is none"),
        "signed token": f"{unsecured(claims(now))}{text('signature of a token')}",
    }
    for name, token in tokens.items():
        with stage.client("SASL_PLAINTEXT") as client:
            client.ask(
                wire.SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1, wire.SaslHandshakeResponse
            )
            said = message(token, extensions=f"traceId={text(f'extension beside the {name}')}\x01")
            request = wire.SaslAuthenticateRequest(auth_bytes=said)
            answer = client.ask(request, 2, wire.SaslAuthenticateResponse)
            assert (name == "good token") == (answer.error_code == 0 and not answer.auth_bytes)
            client.raw(wire.SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
            client.drain()


def produced(client: Watched, value: str) -> None:
    """Send a record whose batch is damaged, with a header of that value."""
    record = Record(0, 0, b"k", value.encode(), (("authorization", value.encode()),))
    batch = bytearray(build_batch([record]))
    batch[17] ^= 1
    data = [wire.PartitionProduceData(index=0, records=bytes(batch))]
    topics = [wire.TopicProduceData(name="orders", partition_data=data)]
    client.raw(wire.ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), 9)


def users(stage: Stage) -> None:
    """Users of SCRAM that are set, and some that are refused."""
    salted = stage.planted.salted
    changes = [
        wire.ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=count, salt=b"salt", salted_password=value
        )
        for name, mechanism, count, value in (
            ("erin", 1, 4096, salted("salted password")),
            ("few", 1, 1, salted("salted password of too few iterations")),
            ("", 1, 4096, salted("salted password of nobody")),
            ("which", 9, 4096, salted("salted password of no mechanism")),
        )
    ]
    with stage.client() as client:
        request = wire.AlterUserScramCredentialsRequest(upsertions=changes)
        answer = client.ask(request, 0, wire.AlterUserScramCredentialsResponse)
        assert [each.error_code == 0 for each in answer.results] == [True, False, False, False]
    with stage.client("SASL_PLAINTEXT") as client:
        change = wire.ScramCredentialUpsertion(
            name="mallory",
            mechanism=1,
            iterations=4096,
            salt=b"salt",
            salted_password=salted("salted password before the login"),
        )
        client.raw(wire.AlterUserScramCredentialsRequest(upsertions=[change]), 0)
        client.drain()


def configs(stage: Stage) -> None:
    """Alterations with secrets, of which two are kept."""
    text, planted = stage.planted.text, stage.planted
    replacement = authority("ours").issue_cert("127.0.0.1", common_name="broker")
    values = {
        "listener.name.ssl.ssl.key.password": text("altered key password"),
        "listener.name.sasl_ssl.ssl.keystore.key": planted.key(
            "altered key without its chain", key_text(replacement)
        ),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": text("altered jaas"),
        "sasl.jaas.config": text("altered jaas of all"),
        "ssl.keystore.password": text("altered store password"),
        "delegation.token.secret.key": text("altered delegation key"),
        "my.reporter.password": text("altered unknown property"),
    }
    with stage.client() as client:
        for name, value in values.items():
            change = AlterableConfig(name=name, value=value)
            resource = AlterConfigsResource(
                resource_type=ConfigResourceType.BROKER, resource_name="0", configs=[change]
            )
            request = IncrementalAlterConfigsRequest(resources=[resource])
            client.ask(request, 1, IncrementalAlterConfigsResponse)
        whole = WholeResource(
            resource_type=ConfigResourceType.BROKER,
            resource_name="",
            configs=[WholeConfig(name="other.password", value=text("default of all brokers"))],
        )
        client.receive(client.send(AlterConfigsRequest(resources=[whole]), 2))
        for kind, name in ((4, "0"), (4, ""), (8, "0")):
            described = wire.DescribeConfigsResource(resource_type=kind, resource_name=name)
            question = wire.DescribeConfigsRequest(
                resources=[described], include_synonyms=True, include_documentation=True
            )
            answer = client.ask(question, 4, wire.DescribeConfigsResponse)
            assert answer.results[0].error_code == ErrorCode.NONE


def requests(stage: Stage) -> None:
    """Secrets in requests of who is let in."""
    text = stage.planted.text
    password = _password(stage, "jaas double quotes")
    with stage.client("SASL_PLAINTEXT") as client:
        assert log_in(client, f"\0alice\0{password}".encode()) == 0
        produced(client, text("record of a damaged batch"))
        client.drain()
    with stage.client("SASL_PLAINTEXT") as client:
        assert log_in(client, f"\0alice\0{password}".encode()) == 0
        again = wire.SaslAuthenticateRequest(auth_bytes=text("token after the login").encode())
        client.raw(again, 2)
        client.drain()
    with stage.client() as client:
        metrics = b"\x0a" + text("attribute of telemetry").encode()
        client.raw(wire.PushTelemetryRequest(metrics=metrics, compression_type=7), 0)
        client.drain()
    with stage.client() as client:
        # A length that leads past the end, and a version that there is not.
        wrong = struct.pack(">hhih", ApiKey.SASL_AUTHENTICATE, 2, 1, 32_000)
        client.send_frame(wrong + text("malformed request").encode())
        client.drain()
    with stage.client() as client:
        wrong = struct.pack(">hhih", ApiKey.METADATA, 99, 1, -1)
        client.send_frame(wrong + text("unknown version").encode())
        client.drain()


def _password(stage: Stage, name: str) -> str:
    """The password of alice in the file."""
    assert name == "jaas double quotes"
    return stage.file.read_text().partition('user_alice="')[2].partition('"')[0]


def pages(stage: Stage) -> dict[str, bytes]:
    """The pages, and what is answered to requests that hold secrets."""
    text = stage.planted.text
    headers = (
        f"Authorization: Basic {text('header of HTTP')}\r\n"
        f"Cookie: session={text('cookie of HTTP')}\r\n"
    )
    shown = {f"/{path}": stage.page(path, headers) for path in PAGES}
    shown["/?token"] = stage.page(f"api/v1/overview?token={text('query of HTTP')}")
    shown["/no HTTP"] = stage.page("ready", f"no header {text('malformed header')}\r\n")
    return shown


WITH_EVERY_LINE = """
import runpy, sys
from tierlog.broker.network import socket_server
socket_server._REPORT_INTERVAL_S = 0
sys.argv = sys.argv[3:]
runpy.run_module("tierlog.cli", run_name="__main__")
"""
"""Runs the command that follows; of many connections that are closed, each leaves a line."""

STORY: tuple[Callable[[Stage], None], ...] = (strangers, bearers, users, configs, requests)


@pytest.mark.slow
def test_no_planted_secret_comes_to_light(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path)
    for name, value in stage.environment.items():
        monkeypatch.setenv(name, value)
    arguments = ["--config", str(stage.file), "--log-level", "ALL"]
    with BrokerProcess(arguments, tmp_path, (sys.executable, "-c", WITH_EVERY_LINE)) as broker:
        for name in stage.environment:
            monkeypatch.delenv(name)
        for act in STORY:
            act(stage)
        places = pages(stage)
        os.kill(broker.process.pid, signal.SIGUSR1)
        wait_until(lambda: "Stacks of " in broker.log.read_text(), 60, broker.log.read_text)
        places |= process_list() | environments(broker.process.pid)
        places["ready line"] = broker.ready_line.encode()
        assert broker.stop() == 0
    places["log"] = broker.log.read_bytes()
    places["answers"] = bytes(Watched.answers)
    places |= files_below(tmp_path / "data")
    planted = stage.planted
    assert len(planted) >= AT_LEAST
    # The search does see them, where they are.
    stated = {"file": stage.file.read_bytes(), "store": (tmp_path / "broker.pem").read_bytes()}
    seen = planted.leaks(stated)
    assert {f"{each} in file" for each in ("inline key", "jaas bare word", "tier option")} <= seen
    assert "key in a file in store" in seen
    assert all(places[each] for each in ("log", "answers", "/metrics", "/api/v1/overview"))
    needed = {("env provider", f"environment of {broker.process.pid}")}
    metadata = next(each for each in places if each.startswith("__cluster_metadata-0/0000"))
    needed |= {(name, metadata) for name in ("altered unknown property", "default of all brokers")}
    assert planted.leaks(places, needed) == set()
