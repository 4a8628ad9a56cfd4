"""Kafka's UUIDs: sixteen bytes, written as URL-safe base64 without padding.

Topic ids, directory ids and segment ids are sent as raw bytes and compared on every fetch, so they
stay raw bytes here; the 22-character form (`org.apache.kafka.common.Uuid`) is only for people and
text files.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import NewType

Uuid = NewType("Uuid", bytes)

ZERO_UUID = Uuid(bytes(16))
"""Kafka's "no id": sent when a topic has no id, or when its id must not be disclosed."""


def uuid_to_string(uuid: Uuid) -> str:
    """The 22-character form that Kafka prints, such as ``5L6g3nShT-eMCtK--X86sw``."""
    return urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def uuid_from_string(text: str) -> Uuid:
    """Parse Kafka's text form. Raises ValueError if it does not encode sixteen bytes."""
    try:
        raw = urlsafe_b64decode(text.encode("ascii") + b"==")
    except (Base64Error, UnicodeEncodeError) as error:
        raise ValueError(f"{text!r} is not a Kafka UUID") from error
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a Kafka UUID: it holds {len(raw)} bytes, not 16")
    return Uuid(raw)
