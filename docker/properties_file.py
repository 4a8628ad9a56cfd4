"""The properties file of the node in this container, which the entry point writes.

The health check and `tierlog-in-sync` read it to learn where the node is.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from tierlog.clients.errors import KafkaError
from tierlog.clients.properties import parse_properties

CONFIG_DIR = "TIERLOG_CONFIG_DIR"
FILE = "server.properties"


class NoPropertiesError(Exception):
    """One message: why there are no properties to be read."""


def path_of_properties(environment: Mapping[str, str]) -> Path:
    """Where the file is."""
    return Path(environment.get(CONFIG_DIR, "/tmp/tierlog")) / FILE


def node_properties() -> dict[str, str]:
    """The properties that the node of this container starts with. Raises NoPropertiesError."""
    file = path_of_properties(os.environ)
    try:
        return parse_properties(file.read_text("utf-8"))
    except OSError as error:
        raise NoPropertiesError(
            f"The node has not begun to start: {file}: {error.strerror}."
        ) from None
    except (UnicodeDecodeError, KafkaError):
        raise NoPropertiesError(f"The node cannot start: {file} is no properties file.") from None
