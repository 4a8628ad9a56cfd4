"""SCRAM-SHA-256 and SCRAM-SHA-512 as the client sees them (RFC 5802, RFC 7677, KIP-84).

    client: n,,n=user,r=nonce                 server: r=nonce+theirs,s=salt,i=iterations
    client: c=biws,r=nonce+theirs,p=proof     server: v=signature

Neither side shows the password. The server's signature proves that it has the user's credential:
without it, any server at the address could pose as the broker. What is signed is made of the bytes
that arrived.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable

from ..errors import ErrorCode, KafkaError
from ..kafka_uuid import Uuid
from .scram_keys import (
    CREDENTIAL_ITERATIONS_MAX,
    CREDENTIAL_ITERATIONS_MIN,
    ScramMechanism,
    credential_of,
    decode64,
    encode64,
    proof_of,
    salted_password,
    server_signature,
)
from .secret import Secret

MESSAGE_BYTES_MAX = 8 * 1024
"""A server's longer message is refused before it is parsed."""

_SERVER_FIRST = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]{1,9})"
    r"(?:,[A-Za-z]+=[^,\0]+)*"
)
_SERVER_FINAL = re.compile(r"v=(?P<signature>[A-Za-z0-9+/=]+)(?:,[A-Za-z]+=[^,\0]+)*")
_NONCE_BYTES = 24


def _failure(message: str) -> KafkaError:
    return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, message)


class ScramLogin:
    """A SCRAM mechanism with a user and the password."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: Secret) -> None:
        self.name = mechanism.name
        self._mechanism = mechanism
        self._user = user
        self._password = password
        self._salted: tuple[bytes, int, bytes] | None = None

    def begin(self, random_uuid: Callable[[], Uuid], /) -> "ScramProof":
        """See `ClientMechanism`."""
        # Each has 122 random bits.
        chance = hashlib.sha256(random_uuid() + random_uuid()).digest()
        nonce = base64.urlsafe_b64encode(chance[:_NONCE_BYTES]).decode()
        return ScramProof(self._mechanism, self._user, nonce, self._salt)

    def _salt(self, salt: bytes, iterations: int) -> bytes:
        """The salted password. It takes milliseconds, and is the same for all connections."""
        kept = self._salted
        if kept is None or kept[:2] != (salt, iterations):
            salted = salted_password(self._mechanism, self._password.reveal(), salt, iterations)
            kept = self._salted = (salt, iterations, salted)
        return kept[2]


class ScramProof:
    """The proof for one connection: two messages each way."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        user: str,
        nonce: str,
        salted: Callable[[bytes, int], bytes],
    ) -> None:
        """`nonce` is the client's part; `salted` salts the password, so many times."""
        self._mechanism = mechanism
        self._nonce = nonce
        self._salted = salted
        escaped = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={escaped},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """See `ClientExchange`."""
        return f"n,,{self._bare}".encode()

    def answer(self, challenge: bytes, /) -> bytes | None:
        """See `ClientExchange`."""
        if len(challenge) > MESSAGE_BYTES_MAX:
            raise _failure(f"the broker's message is longer than {MESSAGE_BYTES_MAX} bytes")
        try:
            message = challenge.decode()
        except UnicodeDecodeError:
            raise _failure("the broker's message is not UTF-8") from None
        if not self._signature:
            return self._prove(message)
        self._verify(message)
        return None

    def _prove(self, message: str) -> bytes:
        match = _SERVER_FIRST.fullmatch(message)
        if match is None:
            raise _failure("the broker's first message of SCRAM is malformed")
        nonce = match["nonce"]
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            # A replayed exchange has another nonce.
            raise _failure("the broker's nonce does not continue the client's")
        iterations = int(match["iterations"])
        if not CREDENTIAL_ITERATIONS_MIN <= iterations <= CREDENTIAL_ITERATIONS_MAX:
            # Fewer make the password easy to guess, more would hold up this process.
            raise _failure(
                f"the broker asks for {iterations} iterations; between"
                f" {CREDENTIAL_ITERATIONS_MIN} and {CREDENTIAL_ITERATIONS_MAX} are accepted"
            )
        try:
            salt = decode64(match["salt"])
        except ValueError:
            raise _failure("the broker's salt is malformed") from None
        unproven = f"c=biws,r={nonce}"
        signed = f"{self._bare},{message},{unproven}".encode()
        salted = self._salted(salt, iterations)
        credential = credential_of(self._mechanism, salted, salt, iterations)
        self._signature = server_signature(self._mechanism, credential, signed)
        proof = proof_of(self._mechanism, salted, signed)
        return f"{unproven},p={encode64(proof)}".encode()

    def _verify(self, message: str) -> None:
        match = _SERVER_FINAL.fullmatch(message)
        if match is None:
            raise _failure("the broker's final message of SCRAM is malformed")
        try:
            signature = decode64(match["signature"])
        except ValueError:
            raise _failure("the broker's signature is malformed") from None
        if not hmac.compare_digest(signature, self._signature):
            raise _failure(
                "the broker does not know the user's password: it is not the right broker"
            )
