"""The control socket: who may open it, and what it does with bytes that are no request."""

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, strategies as st

from tierlog.bench.harness.processes.tierlog_node import tierlog_command, user_environment
from tierlog.testing.local_cluster import control_server
from tierlog.testing.local_cluster.control_client import NotRunningError, ask
from tierlog.testing.local_cluster.control_messages import (
    ACTS,
    REQUEST_BYTES_MAX,
    Answer,
    RefusedError,
    Request,
    decode_answer,
    decode_request,
)
from tierlog.testing.local_cluster.control_server import CONNECTIONS_MAX, ControlServer


@pytest.fixture
def path() -> Iterator[str]:
    """The path of a socket must be short."""
    with TemporaryDirectory(prefix="tierlog-") as directory:
        yield f"{directory}/control.sock"


async def echo(request: Request, progress: Callable[[str], None]) -> Mapping[str, object]:
    progress("begun")
    if request.act == "roll":
        raise RefusedError("not now")
    if request.act == "stop":
        raise ValueError("unexpected")
    return {"act": request.act, "nodes": list(request.nodes)}


async def raw(path: str, content: bytes) -> list[bytes]:
    """What is answered until the connection is closed."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(content)
    lines = (await reader.read()).splitlines()
    writer.close()
    return lines


async def started(path: str, said: list[str] | None = None) -> ControlServer:
    server = ControlServer(echo, (said if said is not None else []).append)
    await server.start(path)
    return server


async def test_an_act_its_progress_and_its_result(path: str) -> None:
    server = await started(path)
    said: list[str] = []
    assert await ask(path, Request("kill", (2, 3)), said.append) == {"act": "kill", "nodes": [2, 3]}
    assert said == ["begun"]
    with pytest.raises(RefusedError, match="not now"):
        await ask(path, Request("roll"), said.append)
    await server.stop()


async def test_an_unexpected_failure_is_answered_too(path: str) -> None:
    said: list[str] = []
    server = await started(path, said)
    with pytest.raises(RefusedError, match="ValueError: unexpected"):
        await ask(path, Request("stop"), said.append)
    await server.stop()
    assert any("stop has failed" in each for each in said)


async def test_only_the_user_may_open_the_socket(path: str) -> None:
    server = await started(path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    await server.stop()


def test_nobody_listens(path: str) -> None:
    with pytest.raises(NotRunningError):
        asyncio.run(ask(path, Request("status"), print))


async def test_hostile_bytes_are_refused_and_the_socket_serves_on(path: str) -> None:
    hostile = [
        b"\n",
        b"\x00\xff\xfe\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"[" * (REQUEST_BYTES_MAX - 1) + b"\n",
        b"x" * (REQUEST_BYTES_MAX + 1),
        json.dumps({"act": "kill", "nodes": [10**400]}).encode()[:4000] + b"\n",
        json.dumps({"act": "exec", "nodes": []}).encode() + b"\n",
    ]
    server = await started(path)
    for content in hostile:
        lines = await raw(path, content)
        assert [b"refused" in each for each in lines] == [True], content[:40]
    # A flood may be cut off before its answer is read.
    with suppress(ConnectionError):
        await raw(path, b"{" + b" " * (1 << 20))
    assert (await ask(path, Request("status"), print))["act"] == "status"
    await server.stop()


async def test_too_many_connections_are_refused(path: str) -> None:
    server = await started(path)
    silent = [await asyncio.open_unix_connection(path) for _ in range(CONNECTIONS_MAX)]
    refused = await raw(path, b"")
    assert b"refused" in refused[0]
    for _, writer in silent:
        writer.close()
        await writer.wait_closed()
    await server.stop()


async def test_who_sends_nothing_is_cut_off(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_server, "REQUEST_WITHIN_S", 0.01)
    server = await started(path)
    assert await raw(path, b'{"act": ') == []
    await server.stop()


@given(st.binary(max_size=200))
@example(b'{"act": "kill", "nodes": [true]}')
@example(b'{"act": "kill", "nodes": {}}')
@example(b'{"act": "add", "rack": "\\n"}')
@example(b'{"act": "add", "is_hard": 1}')
@example(b'{"act": "add", "other": 1}')
@example(b'{"act": ["kill"]}')
def test_no_bytes_get_past_the_reader_but_a_request(line: bytes) -> None:
    with suppress(RefusedError):
        assert decode_request(line).act in ACTS


@given(
    st.builds(
        Request,
        st.sampled_from(ACTS),
        st.lists(st.integers(1, 108), max_size=10).map(tuple),
        st.booleans(),
        st.booleans(),
        st.text(st.characters(categories=["L", "N"]), max_size=20),
    )
)
def test_a_request_reads_as_what_was_sent(request: Request) -> None:
    assert decode_request(request.encode()) == request


@given(st.binary(max_size=200))
def test_no_bytes_get_past_the_client_but_an_answer(line: bytes) -> None:
    with suppress(RefusedError):
        assert decode_answer(line).is_last in (True, False)


@pytest.mark.parametrize(
    "answer", [Answer(progress="p"), Answer(done={"a": 1}), Answer(done={}), Answer(refused="no")]
)
def test_an_answer_reads_as_what_was_sent(answer: Answer) -> None:
    assert decode_answer(answer.encode()) == answer


def test_what_is_no_socket_is_left_where_it_is(path: str) -> None:
    Path(path).write_text("mine")

    async def story() -> None:
        with pytest.raises(RefusedError, match="is not a control socket: move it elsewhere"):
            await started(path)

    asyncio.run(story())
    assert Path(path).read_text() == "mine"


async def test_a_burst_of_connections_is_not_taken_for_an_absent_cluster(path: str) -> None:
    server = await started(path)
    # The server's turn comes only after all of them have connected.
    clients = [socket.socket(socket.AF_UNIX) for _ in range(300)]
    try:
        for client in clients:
            client.setblocking(False)
            client.connect(path)
    finally:
        for client in clients:
            client.close()
    # It is answered, or refused as one of too many.
    with suppress(RefusedError):
        assert (await ask(path, Request("status"), lambda _: None))["act"] == "status"
    await server.stop()


@pytest.mark.slow
def test_ctrl_c_at_a_command_that_waits_says_that_the_cluster_goes_on(path: str) -> None:
    directory = os.path.dirname(path)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path)
        silent.listen()
        command = tierlog_command("cluster", "roll", "--dir", directory)
        with subprocess.Popen(command, stderr=subprocess.PIPE, env=user_environment()) as process:
            silent.settimeout(60)
            asking, _ = silent.accept()
            with asking:
                assert asking.recv(1)
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"tierlog cluster: The cluster goes on with it.\n")
