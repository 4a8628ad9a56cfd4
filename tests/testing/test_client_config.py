"""`Broker.config` takes every setting of confluent-kafka; its callbacks alone have underscores."""

import logging
import re
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, cimpl
from confluent_kafka.admin import AdminClient

from tierlog.testing.broker_options import CALLBACKS, client_config


def _nothing(*_args: object) -> None:
    """A callback."""


def _token(_config: str) -> tuple[str, float]:
    """A token and its end, in seconds since the epoch."""
    return "token", time.time() + 3600


CLIENTS: dict[str, Any] = {"producer": Producer, "consumer": Consumer, "admin": AdminClient}
SETTINGS: dict[str, tuple[object, str]] = {
    "error_cb": (_nothing, "producer consumer admin"),
    "oauth_cb": (_token, "producer consumer admin"),
    "stats_cb": (_nothing, "producer consumer admin"),
    "throttle_cb": (_nothing, "producer consumer admin"),
    "on_delivery": (_nothing, "producer"),
    "on_commit": (_nothing, "consumer"),
    "logger": (logging.getLogger("client"), "producer consumer admin"),
    "default_topic_config": ({"acks": "all"}, "producer consumer admin"),
    "plugin_library_paths": ("", "producer consumer admin"),
    "enable_auto_offset_store": (False, "consumer"),
    "delivery_report_only_error": (True, "producer"),
}
CASES = [(name, client) for name, (_, clients) in SETTINGS.items() for client in clients.split()]


@pytest.mark.parametrize(("name", "client"), CASES)
def test_a_client_takes_the_setting(name: str, client: str) -> None:
    settings = {name: SETTINGS[name][0]}
    if name == "oauth_cb":
        settings |= {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    if client == "consumer":
        settings["group_id"] = "g"
    made = CLIENTS[client](client_config("127.0.0.1:9", settings))
    if client == "consumer":
        made.close()


def test_no_name_with_an_underscore_is_missing() -> None:
    """The names that its compiled part knows; those of arguments of methods are no settings."""
    words = re.findall(rb"\0((?:on_[a-z]+|[a-z]+_cb))(?=\0)", Path(cimpl.__file__).read_bytes())
    arguments = {"on_assign", "on_lost", "on_revoke"}
    assert {word.decode() for word in words} - arguments == CALLBACKS
