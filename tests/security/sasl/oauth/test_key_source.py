"""Where the keys come from: files and endpoints that change, fail, and lie."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tierlog.clients.errors import KafkaError
from tierlog.clients.network.http_document import DOCUMENT_BYTES_MAX, GetError, HttpDocument
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.security.sasl.oauth.key_set import KeySet
from tierlog.security.sasl.oauth.key_source import (
    KEY_ID_CHARACTERS_MAX,
    MISSING_KEYS_MAX,
    EndpointKeys,
    KeySource,
    key_source,
)
from tierlog.security.sasl.oauth.token import TokenRefused
from tierlog.security.sasl.settings import KeyEndpoint

from ...tls import certificates
from .key_server import KeyServer, answer, in_chunks, key_server
from .tokens import claims, key_set, signed

LONG_MS = 1_000_000
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def until(condition: Callable[[], object]) -> None:
    for _ in range(3_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("It never came.")


def has(source: KeySource, kid: str) -> bool:
    """Whether a key is there."""
    alg = "RS256" if kid.startswith("rsa") else "ES256"
    try:
        return bool(source.keys().verified_claims(signed(claims(0), kid, alg)))
    except TokenRefused:
        return False


def endpoint(server: KeyServer) -> KeyEndpoint:
    return KeyEndpoint(server.url(), refresh_ms=LONG_MS, backoff_ms=1, backoff_max_ms=1)


def supervisor() -> Supervisor:
    return Supervisor(Random(29))


def change(path: Path, content: bytes, second: int) -> None:
    path.write_bytes(content)
    os.utime(path, (second, second))


async def test_a_file_is_read_again_when_it_has_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "my keys.json"
    change(path, key_set("rsa-1"), 1_000)
    source = key_source(KeyEndpoint(path.as_uri()), supervisor())
    await source.start()
    assert has(source, "rsa-1")
    change(path, key_set("p256-1"), 2_000)
    assert has(source, "p256-1")
    assert not has(source, "rsa-1")
    change(path, b"half of", 3_000)
    assert has(source, "p256-1")
    assert has(source, "p256-1")
    path.unlink()
    assert has(source, "p256-1")
    (record,) = caplog.records
    assert "Keeping the keys" in record.message
    change(path, key_set("rsa-1"), 4_000)
    assert has(source, "rsa-1")
    source.miss("unseen")
    await source.stop()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        (b"", "it is empty, or no plain file"),
        (b"{}", 'it has no list of "keys"'),
        (b'{"keys": [7, {"kty": "oct", "k": "c2VjcmV0"}, {"kty": "RSA"}]}', "it holds no key"),
        (b" " * (DOCUMENT_BYTES_MAX + 1), "it is longer than"),
    ],
)
async def test_without_keys_nothing_starts(tmp_path: Path, content: bytes | None, why: str) -> None:
    path = tmp_path / "keys.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(KafkaError, match=why) as raised:
        await key_source(KeyEndpoint(path.as_uri()), supervisor()).start()
    assert "sasl.oauthbearer.jwks.endpoint.url" in raised.value.message


async def test_what_may_never_end_is_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "keys.json"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(KafkaError, match="no plain file"):
            await key_source(KeyEndpoint(path.as_uri()), supervisor()).start()


async def test_an_endpoint_is_asked_again_now_and_then() -> None:
    async with key_server() as server:
        server.answer = answer(key_set("rsa-1"), "200 OK", "Content-Type: application/json")
        source = EndpointKeys(endpoint(server)._replace(refresh_ms=1), supervisor(), interval_s=0)
        await source.start()
        assert server.requests[0].startswith(b"GET /keys?tenant=secret HTTP/1.1\r\n")
        assert has(source, "rsa-1")
        server.answer = in_chunks(key_set("p256-1"))
        await until(lambda: has(source, "p256-1"))
        await source.stop()


async def test_an_unseen_key_asks_earlier_and_once() -> None:
    async with key_server() as server:
        server.answer = answer(key_set("rsa-1"))
        source = EndpointKeys(endpoint(server), supervisor(), interval_s=0)
        await source.start()
        server.answer = answer(key_set("rsa-1", "p256-1"))
        source.miss("x" * (KEY_ID_CHARACTERS_MAX + 1))
        await asyncio.sleep(0.02)
        assert len(server.requests) == 1
        source.miss("p256-1")
        await until(lambda: has(source, "p256-1"))
        source.miss("p256-1")
        await asyncio.sleep(0.02)
        assert len(server.requests) == 2
        for number in range(3 * MISSING_KEYS_MAX):
            source.miss(f"invented-{number}")
        assert source.missing_keys == MISSING_KEYS_MAX
        await source.stop()


async def test_a_failing_endpoint_leaves_the_old_keys(caplog: pytest.LogCaptureFixture) -> None:
    async with key_server() as server:
        server.answer = answer(key_set("rsa-1"))
        source = EndpointKeys(endpoint(server), supervisor(), interval_s=0)
        await source.start()
        server.answer = answer(b"busy", "503 Service Unavailable")
        source.miss("unseen")
        await until(lambda: caplog.records)
        assert has(source, "rsa-1")
        await source.stop()
    text = caplog.records[0].getMessage()
    assert text.endswith("/keys that verify tokens: its answer has status 503")
    assert "secret" not in text


async def test_a_failure_that_nobody_has_foreseen_does_not_end_the_asking(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: bytes) -> KeySet:
        raise OverflowError("a number of no size")

    async with key_server() as server:
        server.answer = answer(key_set("rsa-1"))
        source = EndpointKeys(endpoint(server)._replace(refresh_ms=1), supervisor(), interval_s=0)
        await source.start()
        with monkeypatch.context() as patched:
            patched.setattr("tierlog.security.sasl.oauth.key_source.parse_key_set", fail)
            await until(lambda: caplog.records)
            assert has(source, "rsa-1")
        server.answer = answer(key_set("p256-1"))
        await until(lambda: has(source, "p256-1"))
        await source.stop()
    assert "internal error" in caplog.records[0].getMessage()


async def test_a_start_tries_again_until_the_keys_come() -> None:
    async with key_server() as server:
        server.answer = answer(b"no", "500 Error")
        source = EndpointKeys(
            endpoint(server)._replace(backoff_ms=10, backoff_max_ms=60_000), supervisor()
        )
        starting = asyncio.create_task(source.start())
        await until(lambda: len(server.requests) >= 3)
        server.answer = answer(key_set("rsa-1"))
        await starting
        assert has(source, "rsa-1")
        await source.stop()


async def test_a_start_without_an_endpoint_says_why() -> None:
    async with key_server() as server:
        port = server.port
    gone = KeyEndpoint(f"http://127.0.0.1:{port}/keys", backoff_max_ms=1)
    with pytest.raises(KafkaError, match="Connect"):
        await key_source(gone, supervisor()).start()


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (answer(b"", "302 Found", "Location: http://127.0.0.1:1/"), "its answer has status 302"),
        (answer(b"", "404 Not Found"), "its answer has status 404"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort", "malformed or cut off"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9" + b"0" * 30 + b"\r\n\r\n{}",
            "malformed or cut off",
        ),
        (CHUNKED + b"f" * 30 + b"\r\n{}\r\n0\r\n\r\n", "malformed or cut off"),
        (b"hello", "malformed or cut off"),
        (answer(b" " * DOCUMENT_BYTES_MAX), "longer than"),
        (b"", "did not answer within"),
    ],
)
async def test_what_is_no_document_is_reported(sent: bytes, why: str) -> None:
    async with key_server() as server:
        server.answer = sent
        with pytest.raises(GetError, match=why):
            await HttpDocument(server.url()).get(timeout_s=30 if sent else 0.05)


async def test_an_endpoint_with_tls_has_to_show_a_certificate_that_is_trusted() -> None:
    async with key_server(certificates.server().context) as server:
        server.answer = answer(key_set("rsa-1"))
        trusting = endpoint(server)._replace(url=server.url("https"))
        stranger = trusting._replace(trusted_text=certificates.authority_text("strangers"))
        with pytest.raises(KafkaError, match="its certificate is not accepted"):
            await key_source(stranger, supervisor()).start()
        source = key_source(
            trusting._replace(trusted_text=certificates.authority_text()), supervisor()
        )
        await source.start()
        assert has(source, "rsa-1")
        await source.stop()


@pytest.mark.parametrize(("path", "text"), [("/none.pem", ""), ("", "x")])
async def test_certificates_that_cannot_be_read_refuse_the_start(path: str, text: str) -> None:
    with pytest.raises(KafkaError, match="holds no certificates that can be used"):
        await key_source(
            KeyEndpoint("https://127.0.0.1:1/keys", trusted_path=path, trusted_text=text),
            supervisor(),
        ).start()
