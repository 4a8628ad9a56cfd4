"""A test replaces functions of the system, as mocks do: the broker in its process keeps its own."""

import builtins
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from tierlog.testing import Broker

REPLACED: list[tuple[Any, str]] = [
    *((os, name) for name in ("access", "close", "fstat", "fsync", "fdatasync", "ftruncate")),
    *((os, name) for name in ("link", "listdir", "lstat", "makedirs", "mkdir", "open", "pread")),
    *((os, name) for name in ("pwrite", "read", "remove", "rename", "replace", "rmdir")),
    *((os, name) for name in ("scandir", "sendfile", "stat", "statvfs", "unlink", "write")),
    *((os.path, name) for name in ("exists", "isdir", "isfile", "islink", "getsize", "dirname")),
    *((shutil, name) for name in ("rmtree", "copytree", "move")),
    *((tempfile, name) for name in ("mkdtemp", "mkstemp", "gettempdir")),
    *((pathlib.Path, name) for name in ("exists", "mkdir", "open", "unlink")),
    (builtins, "open"),
]


def _failing(name: str) -> Callable[..., Any]:
    def fail(*_args: object, **_options: object) -> None:
        raise OSError(f"{name} is a mock's")

    return fail


def _use(broker: Broker, topic: str) -> None:
    """Everything that reaches the disk: segments made, written, copied, read, deleted."""
    broker.create_topic(topic)
    producer = Producer(broker.config(message_timeout_ms=30_000))
    producer.produce(topic, b"one pear")
    assert producer.flush(30) == 0
    broker.offload(topic)
    assert [record.value for record in broker.records(topic)] == [b"one pear"]
    broker.delete_topic(topic)


def _replace_all(patch: pytest.MonkeyPatch) -> None:
    for owner, name in REPLACED:
        patch.setattr(owner, name, _failing(name))


def test_a_broker_that_runs_does_not_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(tier="memory") as broker:
        _use(broker, "before")
        with monkeypatch.context() as patch:
            _replace_all(patch)
            _use(broker, "during")
        _use(broker, "after")


def test_a_broker_starts_and_stops_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    # It has loaded what it needs of Python's own modules.
    with Broker(tier="memory") as broker:
        _use(broker, "before")
    with monkeypatch.context() as patch:
        _replace_all(patch)
        with Broker(tier="memory") as broker:
            directory = broker.directory
            _use(broker, "during")
            broker.restart()
    assert not os.path.exists(directory)
