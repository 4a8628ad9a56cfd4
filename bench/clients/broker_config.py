"""What a broker says of its own configuration, asked through librdkafka."""

from typing import TYPE_CHECKING, Protocol, cast

from confluent_kafka import KafkaException, admin as client

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

_TIMEOUT_S = 30.0


class _Entry(Protocol):
    value: str | None


def broker_config(bootstrap: str) -> dict[str, str]:
    """The properties of one broker of the cluster; empty where it does not tell them."""
    asked = client.AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    broker_id = next(iter(asked.list_topics(timeout=_TIMEOUT_S).brokers))
    # The client's admin module exports it, and its annotations forget to say so.
    resource_class = client.ConfigResource  # type: ignore[attr-defined]  # pyright: ignore[reportPrivateImportUsage]
    resource = resource_class("broker", str(broker_id))
    # The client publishes its futures without the type of what they hold.
    answers = asked.describe_configs([resource])  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    (answer,) = cast("dict[object, Future[Mapping[str, _Entry]]]", answers).values()
    try:
        entries = answer.result(_TIMEOUT_S)
    except KafkaException:
        return {}
    return {name: entry.value or "" for name, entry in entries.items()}
