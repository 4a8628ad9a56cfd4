"""A broker counts as up only when it has answered."""

import socket
import threading

import pytest

from tierlog.bench.probe import NotUpError, answers_metadata, free_port, wait_until_up


def test_a_listener_that_hangs_up_is_not_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def hang_up() -> None:
            server.accept()[0].close()

        listener = threading.Thread(target=hang_up)
        listener.start()
        assert not answers_metadata("127.0.0.1", port)
        listener.join(timeout=10)


def test_waiting_ends_when_the_process_has_ended() -> None:
    with pytest.raises(NotUpError, match="has ended"):
        wait_until_up("127.0.0.1", free_port(), timeout_s=60, is_alive=lambda: False)


def test_waiting_ends_at_the_deadline() -> None:
    with pytest.raises(NotUpError, match="No Metadata answer"):
        wait_until_up("127.0.0.1", free_port(), timeout_s=0.01)
