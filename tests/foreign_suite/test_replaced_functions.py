"""Functions of Python that a test replaces: the broker goes on with its own."""

import builtins
import os
import shutil

import pytest
from kafka_clients import produce, stored

REPLACED = [(os, "open"), (os, "stat"), (os, "replace"), (os.path, "exists"), (builtins, "open")]


def no_disk(*_args, **_options):
    """The disk of an application that has none."""
    raise OSError("no disk")


@pytest.mark.parametrize(("owner", "name"), REPLACED, ids=[name for _, name in REPLACED])
def test_one_function(tierlog_broker, tierlog_topic, monkeypatch, owner, name):
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, no_disk)
        produce(tierlog_broker, tierlog_topic, b"one pear")
        tierlog_broker.offload(tierlog_topic)
        read = stored(tierlog_broker, tierlog_topic)
    assert read == [b"one pear"]


def test_a_removal(tierlog_broker, tierlog_topic, monkeypatch):
    removed = []
    monkeypatch.setattr(shutil, "rmtree", removed.append)
    produce(tierlog_broker, tierlog_topic, b"one pear")
    tierlog_broker.create_topic(f"{tierlog_topic}-2")
    tierlog_broker.delete_topic(f"{tierlog_topic}-2")
    assert removed == []


def test_the_environment(tierlog_broker, tierlog_topic, monkeypatch):
    monkeypatch.setattr(os, "environ", {})
    produce(tierlog_broker, tierlog_topic, b"one pear")
    assert stored(tierlog_broker, tierlog_topic) == [b"one pear"]
