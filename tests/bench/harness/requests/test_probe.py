"""A broker counts as up only when it has answered."""

import random
import socket
import threading
from pathlib import Path

import pytest

from tierlog.bench.harness.requests.probe import (
    NotUpError,
    answers_metadata,
    free_port,
    wait_until_up,
)


def test_a_listener_that_hangs_up_is_not_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def hang_up() -> None:
            server.accept()[0].close()

        listener = threading.Thread(target=hang_up)
        listener.start()
        assert not answers_metadata("127.0.0.1", port)
        listener.join(timeout=60)


def test_waiting_ends_when_the_process_has_ended() -> None:
    with pytest.raises(NotUpError, match="has ended"):
        wait_until_up("127.0.0.1", free_port(), timeout_s=60, is_alive=lambda: False)


def test_waiting_ends_at_the_deadline() -> None:
    with pytest.raises(NotUpError, match="No Metadata answer"):
        wait_until_up("127.0.0.1", free_port(), timeout_s=0.01)


def test_a_free_port_can_be_listened_on_more_than_once() -> None:
    port = free_port()
    for _ in range(2):
        with socket.create_server(("127.0.0.1", port)) as server:
            socket.create_connection(server.getsockname()).close()


@pytest.mark.parametrize(
    ("given_out", "ours"),
    [
        ("32768\t60999\n", range(10_000, 32_768)),
        ("10500 65535", range(10_000, 10_500)),
        ("10001 65535", range(1_024, 65_536)),
        ("1024 65535", range(1_024, 65_536)),
        ("", range(10_000, 32_768)),
        (None, range(10_000, 32_768)),
    ],
)
def test_a_free_port_is_none_that_the_system_gives_to_somebody_else(
    given_out: str | None, ours: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until 2026-11-23 it was one: a connection had it when a benchmark wanted to listen on it."""
    limits = tmp_path / "ip_local_port_range"
    if given_out is not None:
        limits.write_text(given_out)
    monkeypatch.setattr("tierlog.bench.harness.requests.probe._GIVEN_OUT", str(limits))
    assert not [port for port in (free_port() for _ in range(50)) if port not in ours]


def test_processes_that_ask_with_the_same_seed_get_different_ports() -> None:
    drawn: list[set[int]] = []
    for _ in range(2):
        random.seed(7)
        drawn.append({free_port() for _ in range(5)})
    assert drawn[0] != drawn[1]
