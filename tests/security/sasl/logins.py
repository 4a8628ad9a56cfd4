"""Clients that log in: where they connect, and how they are told that they may not."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Producer


class Door(NamedTuple):
    """A listener, and what its clients need to trust it."""

    protocol: str
    port: int
    ca: Path

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def context(self) -> ssl.SSLContext | None:
        if self.protocol != "SASL_SSL":
            return None
        return ssl.create_default_context(cafile=str(self.ca))


def refusal(settings: Mapping[str, Any]) -> KafkaError:
    """The error that librdkafka reports of a client that is not let in."""
    errors: list[KafkaError] = []
    client = Producer({**settings, "error_cb": errors.append, "log_level": 0})
    for _ in range(300):
        client.poll(0.1)
        for error in errors:
            if error.code() != KafkaError._ALL_BROKERS_DOWN:
                return error
    raise AssertionError("No error was reported.")
