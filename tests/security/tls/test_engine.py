"""The engine without sockets: whatever way cipher text is cut, the same plain text comes out."""

import _ssl
import ctypes
import ssl
from contextlib import suppress

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.security.tls import engine as engine_module
from tierlog.security.tls.engine import (
    FEED_BYTES,
    SILENT_RECORDS_MAX,
    TRANSITIONS,
    NotTlsError,
    TlsEngine,
    TlsError,
    TlsEvent,
    TlsState,
)
from tierlog.tests.security.tls.certificates import client_context, server


class Client:
    """A client in memory."""

    def __init__(self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        context = client_context()
        context.minimum_version = context.maximum_version = version
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def shake(self, answer: bytes) -> bytes:
        self.incoming.write(answer)
        with suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.outgoing.read()


def shaken(client: Client) -> TlsEngine:
    engine = TlsEngine(server().context)
    answer, is_done = b"", False
    while not is_done:
        is_done = engine.shake(memoryview(client.shake(answer)))
        answer = engine.outgoing()
    client.shake(answer)
    return engine


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@settings(max_examples=20, deadline=None)
@given(
    pieces=st.lists(st.binary(min_size=1, max_size=40_000), min_size=1, max_size=5),
    cuts=st.lists(st.integers(1, 30_000), min_size=1, max_size=8),
    rooms=st.lists(st.integers(1, 50_000), min_size=1, max_size=5),
)
def test_any_way_of_cutting_gives_the_same_bytes(
    version: ssl.TLSVersion, pieces: list[bytes], cuts: list[int], rooms: list[int]
) -> None:
    client = Client(version)
    engine = shaken(client)
    for piece in pieces:
        client.tls.write(piece)
    stream = memoryview(client.outgoing.read())
    plain, step = b"", 0
    while stream:
        part, stream = stream[: cuts[step % len(cuts)]], stream[cuts[step % len(cuts)] :]
        while True:
            into = bytearray(rooms[step % len(rooms)])
            step += 1
            used, filled = engine.decrypt(part, memoryview(into))
            part, plain = part[used:], plain + into[:filled]
            if filled < len(into):
                break
        assert not part
    assert plain == b"".join(pieces)
    engine.encrypt(plain)
    client.incoming.write(engine.outgoing())
    echo = b""
    while len(echo) < len(plain):
        echo += client.tls.read(65_536)
    assert echo == plain


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_a_client_in_plain_text_gets_the_protocol_of_the_listener(protocol: str) -> None:
    engine = TlsEngine(server().context, protocol)
    with pytest.raises(NotTlsError, match=f"; set security.protocol={protocol} on that client"):
        engine.shake(memoryview(b"\0\0\0\x12"))


@settings(max_examples=25, deadline=None)
@given(st.binary(min_size=1, max_size=2_000), st.booleans())
def test_hostile_bytes_end_a_handshake_and_nothing_else(content: bytes, looks_right: bool) -> None:
    engine = TlsEngine(server().context)
    begin = b"\x16\x03\x01" + content if looks_right else content
    try:
        assert not engine.shake(memoryview(begin))
    except NotTlsError:
        assert begin[0] != 0x16
        assert not engine.outgoing_bytes
    except TlsError:
        assert engine.state is TlsState.FAILED


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_damaged_record_ends_the_connection(data: st.DataObject) -> None:
    client = Client()
    engine = shaken(client)
    client.tls.write(b"a request")
    stream = bytearray(client.outgoing.read())
    place = data.draw(st.integers(5, len(stream) - 1))
    stream[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(TlsError):
        engine.decrypt(memoryview(stream), memoryview(bytearray(100)))
    assert engine.state is TlsState.FAILED


def test_the_end_is_said() -> None:
    client = Client()
    engine = shaken(client)
    engine.say_goodbye()
    client.incoming.write(engine.outgoing())
    assert client.tls.read(1) == b""


def test_the_end_is_heard_after_what_came_before_it() -> None:
    client = Client()
    engine = shaken(client)
    client.tls.write(b"last")
    with suppress(ssl.SSLWantReadError):
        client.tls.unwrap()
    into = bytearray(10)
    _, filled = engine.decrypt(memoryview(client.outgoing.read()), memoryview(into))
    assert (bytes(into[:filled]), engine.state) == (b"last", TlsState.ENDED)


_OPENSSL = ctypes.CDLL(_ssl.__file__)
_POINTER_BYTES = ctypes.sizeof(ctypes.c_void_p)
_ANSWERED = 1


def update_keys(client: Client, *, is_answered: bool) -> bytes:
    """A key update's record. Python has no function for it: OpenSSL is behind its object's head."""
    at = id(vars(client.tls)["_sslobj"]) + object.__basicsize__ + _POINTER_BYTES
    connection = ctypes.c_void_p.from_address(at)
    assert _OPENSSL.SSL_key_update(connection, _ANSWERED if is_answered else 0) == 1
    assert _OPENSSL.SSL_do_handshake(connection) == 1
    return client.outgoing.read()


@pytest.mark.parametrize("is_answered", [True, False])
def test_key_updates_without_data_end_the_connection(is_answered: bool) -> None:
    """Each costs far more than it takes to send, and its answer is memory."""
    client = Client()
    engine = shaken(client)
    into = memoryview(bytearray(100))
    for _ in range(100):
        engine.decrypt(memoryview(update_keys(client, is_answered=is_answered)), into)
    client.tls.write(b"data")
    assert engine.decrypt(memoryview(client.outgoing.read()), into)[1] == len(b"data")
    flood = b"".join(update_keys(client, is_answered=is_answered) for _ in range(5_000))
    answered = engine.outgoing_bytes
    with pytest.raises(TlsError, match="records without data"):
        engine.decrypt(memoryview(flood), into)
    assert engine.outgoing_bytes - answered <= 2 * FEED_BYTES
    assert engine.state is TlsState.FAILED


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_byte_of_data_between_key_updates_does_not_help(is_answered: bool) -> None:
    client = Client()
    engine = shaken(client)
    into = memoryview(bytearray(40_000))
    flood = b""
    for _ in range(3_000):
        client.tls.write(b"x")
        flood += client.outgoing.read() + update_keys(client, is_answered=is_answered)
    with pytest.raises(TlsError, match="too many TLS records without data"):
        engine.decrypt(memoryview(flood), into)
    assert engine.outgoing_bytes <= 2 * FEED_BYTES
    assert engine.state is TlsState.FAILED


def test_a_connection_that_lasts_may_go_on_updating_its_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_module, "BYTES_A_SILENT_RECORD", 1_000)
    client = Client()
    engine = shaken(client)
    into = memoryview(bytearray(2_000))
    for _ in range(3 * SILENT_RECORDS_MAX):
        update = update_keys(client, is_answered=True)
        client.tls.write(bytes(1_000))
        _, filled = engine.decrypt(memoryview(update + client.outgoing.read()), into)
        assert filled == 1_000


@pytest.mark.parametrize("cut", [1, 4, 7, 5_003])
@pytest.mark.parametrize("room", [1, 50_000])
def test_however_small_records_with_data_are_they_are_no_key_updates(cut: int, room: int) -> None:
    client = Client()
    engine = shaken(client)
    for _ in range(3 * SILENT_RECORDS_MAX):
        client.tls.write(b"xy")
    stream = memoryview(client.outgoing.read())
    into = memoryview(bytearray(room))
    plain_bytes = 0
    for first in range(0, len(stream), cut):
        part = stream[first : first + cut]
        while True:
            used, filled = engine.decrypt(part, into)
            part = part[used:]
            plain_bytes += filled
            if filled < room:
                break
    assert plain_bytes == 2 * 3 * SILENT_RECORDS_MAX


def test_each_record_is_read_once_and_openssl_is_never_asked_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A read that returns nothing raises, which costs more than to decrypt a small record."""
    client = Client()
    engine = shaken(client)
    into = memoryview(bytearray(1 << 20))
    client.tls.write(b"first")
    assert engine.decrypt(memoryview(client.outgoing.read()), into)[1] == 5
    reads: list[int] = []
    read = engine._read  # pyright: ignore[reportPrivateUsage]  # no call shows it

    def note(size: int, buffer: memoryview) -> int:
        reads.append(size)
        return read(size, buffer)

    monkeypatch.setattr(engine, "_read", note)
    for _ in range(200):
        client.tls.write(bytes(20))
        client.tls.write(bytes(3_000))
    stream = memoryview(client.outgoing.read())
    for first in range(0, len(stream), 50_001):
        engine.decrypt(stream[first : first + 50_001], into)
    assert len(reads) == 400


def test_every_state_and_event() -> None:
    legal = set(TRANSITIONS)
    assert {state for state, _ in legal} == {TlsState.SHAKING, TlsState.OPEN}
    for state in TlsState:
        for event in TlsEvent:
            if (state, event) not in legal:
                with pytest.raises(KeyError):
                    TRANSITIONS[state, event]
