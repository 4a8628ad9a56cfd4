"""The argument of `tierlog format --initial-controllers`: id@host:port:directory, by commas.

The forms and the error messages are those of Kafka's `DynamicVoters` and `DynamicVoter`.
"""

from typing import NamedTuple

from ..broker.config.quorum_config import INT32_MAX, PORT_MAX
from ..clients.errors import ErrorCode, KafkaError
from ..clients.kafka_uuid import ZERO_UUID, Uuid, uuid_from_string

_DIGITS_MAX = 11


class InitialController(NamedTuple):
    """One of the first voters: its id, its address, and the id of its metadata directory."""

    node_id: int
    host: str
    port: int
    directory_id: Uuid


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def parse_initial_controllers(text: str) -> tuple[InitialController, ...]:
    """The voters in the argument, by id. Raises KafkaError(INVALID_CONFIG)."""
    controllers: dict[int, InitialController] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        controller = _parse(entry)
        if controller.node_id in controllers:
            raise _refusal(f"Node id {controller.node_id} was specified more than once.")
        controllers[controller.node_id] = controller
    if not controllers:
        raise _refusal("No voters given.")
    return tuple(controllers[node_id] for node_id in sorted(controllers))


def _parse(entry: str) -> InitialController:
    id_text, at, address = entry.partition("@")
    if not at:
        raise _refusal("No @ found in dynamic voter string.")
    if not id_text:
        raise _refusal("Invalid @ at beginning of dynamic voter string.")
    node_id = _integer(id_text)
    if node_id is None:
        raise _refusal("Failed to parse node id in dynamic voter string.")
    if node_id < 0:
        raise _refusal(f"Invalid negative node id {node_id} in dynamic voter string.")
    host, rest = _host(address)
    port_text, colon, directory_text = rest.partition(":")
    if not colon:
        raise _refusal("No colon following port could be found.")
    port = _integer(port_text)
    if port is None:
        raise _refusal("Failed to parse port in dynamic voter string.")
    if not 0 <= port <= PORT_MAX:
        raise _refusal(f"Invalid port {port} in dynamic voter string.")
    try:
        directory_id = uuid_from_string(directory_text)
    except ValueError as error:
        raise _refusal("Failed to parse directory ID in dynamic voter string.") from error
    if directory_id == ZERO_UUID:
        # Kafka accepts it, but a voter without a directory is a static one.
        raise _refusal(f"The directory ID {directory_text} is reserved: `tierlog random-uuid`.")
    return InitialController(node_id, host, port, directory_id)


def _host(address: str) -> tuple[str, str]:
    """The host, and what follows its colon."""
    if not address:
        raise _refusal("No hostname found after node id.")
    if address.startswith("["):
        host, bracket, rest = address[1:].partition("]")
        if not bracket:
            raise _refusal("Hostname began with left bracket, but no right bracket was found.")
    else:
        host, colon, after = address.partition(":")
        if not colon:
            raise _refusal("No colon following hostname could be found.")
        rest = f":{after}"
    if not rest.startswith(":"):
        raise _refusal("Port section must start with a colon.")
    return host, rest[1:]


def _integer(text: str) -> int | None:
    """What Java's `Integer.parseInt` makes of it; None if that fails."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit() and len(text) <= _DIGITS_MAX):
        return None
    number = int(text)
    return number if -INT32_MAX - 1 <= number <= INT32_MAX else None
