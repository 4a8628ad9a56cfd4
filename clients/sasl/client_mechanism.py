"""What a SASL mechanism is to a client: tokens out, tokens in (`SaslClient`), and PLAIN.

An exchange proves who the client is on one connection. It does no I/O.
"""

from collections.abc import Callable
from typing import Protocol

from ..errors import ErrorCode, KafkaError
from ..kafka_uuid import Uuid
from .scram_keys import SCRAM_BY_NAME
from .secret import Secret

PLAIN = "PLAIN"
CLIENT_MECHANISMS = (PLAIN, *SCRAM_BY_NAME)
"""The mechanisms with which clients here can log in."""


class ClientExchange(Protocol):
    """The proof for one connection."""

    def first(self) -> bytes:
        """The first token for the server."""
        ...

    def answer(self, challenge: bytes, /) -> bytes | None:
        """The answer to the server's token; None if the exchange is complete.

        Raises KafkaError(SASL_AUTHENTICATION_FAILED) for a server that cannot be trusted.
        """
        ...


class ClientMechanism(Protocol):
    """A mechanism with the client's name and secret. It serves any number of connections."""

    @property
    def name(self) -> str:
        """The mechanism's name in a SaslHandshake."""
        ...

    def begin(self, random_uuid: Callable[[], Uuid], /) -> ClientExchange:
        """Begin the proof for one connection; `random_uuid` is its source of chance."""
        ...


class PlainLogin:
    """PLAIN (RFC 4616): the password goes to the server as it is."""

    name = PLAIN

    def __init__(self, user: str, password: Secret) -> None:
        """Raises KafkaError(INVALID_CONFIG) for a name or password that PLAIN cannot send."""
        if "\0" in user or "\0" in password.reveal():
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, "A user name or password of PLAIN cannot hold a NUL."
            )
        self._user = user
        self._password = password

    def begin(self, _: Callable[[], Uuid], /) -> "PlainLogin":
        """See `ClientMechanism`."""
        return self

    def first(self) -> bytes:
        """See `ClientExchange`."""
        # The authorization id is empty, as Java's is: it is the user.
        return f"\0{self._user}\0{self._password.reveal()}".encode()

    def answer(self, _: bytes, /) -> None:
        """See `ClientExchange`. What the server says beside its yes has no meaning."""
        return


def client_mechanism(name: str, user: str, password: Secret) -> ClientMechanism:
    """The mechanism of that name, one of CLIENT_MECHANISMS, for a user.

    Raises KafkaError(INVALID_CONFIG) if it cannot send that name or password.
    """
    if name == PLAIN:
        return PlainLogin(user, password)
    # Loaded by those alone who use it.
    from .scram_login import ScramLogin

    return ScramLogin(SCRAM_BY_NAME[name], user, password)
