"""Checks topic names (`org.apache.kafka.common.internals.Topic`).

A name is 1 to 249 characters of ``[a-zA-Z0-9._-]`` and neither ``.`` nor ``..``, because it becomes
part of a directory's name. Metric names replace ``.`` with ``_``, so a topic that differs from an
existing one only in these characters is rejected.
"""

from collections.abc import Iterable

from ..clients.errors import ErrorCode, KafkaError

TOPIC_NAME_LENGTH_MAX = 249

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"

SHARE_GROUP_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC})
"""The topics that Metadata responses mark as internal."""
NEVER_TIERED = INTERNAL_TOPICS | {REMOTE_LOG_METADATA_TOPIC}
"""Topics whose segments always stay on local disks, whatever their configuration."""

_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def validate_topic_name(name: str) -> None:
    """Raise KafkaError(INVALID_TOPIC_EXCEPTION) for an invalid topic name."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        problem = f"the length of '{name}' is longer than the max allowed length 249"
    elif not _LEGAL.issuperset(name):
        problem = (
            f"'{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def unified_name(name: str) -> str:
    """The name as used in metrics; topics with equal metric names collide."""
    return name.replace(".", "_")


def colliding_topic(name: str, existing: Iterable[str]) -> str | None:
    """An existing topic that `name` collides with, if any."""
    if "." not in name and "_" not in name:
        return None
    unified = unified_name(name)
    return next((other for other in existing if unified_name(other) == unified), None)
