"""The message in which a client sends its token (RFC 7628, `OAuthBearerClientInitialResponse`).

    n,a=<authorization id>,^A auth=Bearer <token> ^A <name>=<value> ^A ... ^A

without the spaces; ^A is the byte 1. The authorization id and the extensions may be absent.
"""

import re
from typing import NamedTuple

MESSAGE_BYTES_MAX = 128 * 1024
"""A longer message is refused before it is parsed: strangers send it, and tokens are much shorter.
Kafka has no bound but `sasl.server.max.receive.size`."""

_SEPARATOR = "\x01"
# Nothing is tried twice: strangers send these.
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_PAIR = r"[A-Za-z]++=[\x21-\x7e \t\r\n]++\x01"
_MESSAGE = re.compile(rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:{_PAIR})*+)\x01")
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)


class MalformedMessage(Exception):
    """The message is none. Its text holds nothing of the message."""


class BearerMessage(NamedTuple):
    """A client's message; its extensions mean nothing to this broker."""

    token: str
    authorization_id: str
    """Empty if the client names none."""


def parse_message(message: bytes) -> BearerMessage:
    """Parse a client's message. Raises MalformedMessage."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise MalformedMessage(f"the message is longer than {MESSAGE_BYTES_MAX} bytes")
    match = _MESSAGE.fullmatch(message.decode("utf-8", "replace"))
    if match is None:
        raise MalformedMessage("the message is malformed")
    pairs = (part.split("=", 1) for part in match["pairs"].split(_SEPARATOR) if part)
    auth = dict(pairs).get("auth")
    if auth is None:
        raise MalformedMessage("the message has no auth")
    authorization = _AUTH.fullmatch(auth)
    if authorization is None:
        raise MalformedMessage("the message has a malformed auth")
    if authorization["scheme"].lower() != "bearer":
        raise MalformedMessage("the message has another scheme than Bearer")
    return BearerMessage(authorization["token"], match["authzid"] or "")
