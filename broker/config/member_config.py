"""What a member of a cluster of several processes may not have in its properties file, yet.

A member is a process of a larger cluster (`BrokerConfig.is_member`). Whatever its file
asks for and is not served prevents the start, with one message.
"""

from collections.abc import Sequence

from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.absolute_path import absolute_path
from .config_values import ConfigValues
from .listeners import Listeners, listener_of_brokers
from .quorum_config import QuorumConfig, Role

METADATA_DIRECTORY = "metadata.log.dir"

_AUTO_JOIN = "controller.quorum.auto.join.enable"


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def check_member(
    values: ConfigValues,
    quorum: QuorumConfig,
    listeners: Listeners,
    *,
    has_mounts: bool,
) -> None:
    """Refuse what a member does not serve yet, or cannot serve without a listener.

    Raises KafkaError(INVALID_CONFIG).
    """
    names = [endpoint.name for endpoint in listeners.advertised]
    if quorum.is_broker and listener_of_brokers(values) not in names:
        raise _refusal(
            "inter.broker.listener.name must be a listener name defined in advertised.listeners."
            f" The valid options based on currently configured listeners are {','.join(names)}"
        )
    if has_mounts:
        raise _refusal(
            "A cluster of several processes cannot mount another tier yet: remove the properties"
            " tierlog.mount.*."
        )
    if _AUTO_JOIN in values.stated and values.boolean(_AUTO_JOIN) and _is_dynamic(quorum):
        raise _refusal(
            f"{_AUTO_JOIN}=true is not supported yet: add a controller with kafka-metadata-quorum"
            " add-controller."
        )


def _is_dynamic(quorum: QuorumConfig) -> bool:
    return Role.CONTROLLER in quorum.roles and not quorum.voters


def metadata_directory_first(values: ConfigValues, log_dirs: Sequence[str]) -> tuple[str, ...]:
    """The log directories, beginning with the one that has the metadata log.

    Raises KafkaError(INVALID_CONFIG) if it is not one of them.
    """
    stated = values.text(METADATA_DIRECTORY).strip()
    if not stated:
        return tuple(log_dirs)
    first = absolute_path(stated)
    if first not in log_dirs:
        raise _refusal(
            f"{METADATA_DIRECTORY}={stated} is not supported yet: it must be one of log.dirs."
        )
    return (first, *(log_dir for log_dir in log_dirs if log_dir != first))


def member_warnings(values: ConfigValues) -> list[str]:
    """Warnings about properties that do not fit."""
    warnings: list[str] = []
    session_ms = values.integer("broker.session.timeout.ms")
    heartbeat_ms = values.integer("broker.heartbeat.interval.ms")
    if heartbeat_ms * 2 > session_ms:
        # Kafka warns, too, and starts (KAFKA-19432).
        warnings.append(
            f"broker.heartbeat.interval.ms={heartbeat_ms} should be at most half of"
            f" broker.session.timeout.ms={session_ms}: one late heartbeat fences the broker."
        )
    return warnings
