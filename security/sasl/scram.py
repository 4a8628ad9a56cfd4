"""SCRAM-SHA-256 and SCRAM-SHA-512 as the server sees them (RFC 5802, RFC 7677, KIP-84).

    client: n,,n=user,r=nonce                 server: r=nonce+ours,s=salt,i=iterations
    client: c=biws,r=nonce+ours,p=proof       server: v=signature

Signatures are computed over the bytes exactly as they arrived. An unknown user gets a credential
that looks like any other (`unknown_users.py`), the same one each time and from each broker, and
fails where a wrong password fails.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable

from ...clients.kafka_uuid import Uuid
from ...clients.sasl.scram_keys import (
    ScramCredential,
    ScramMechanism,
    decode64,
    encode64,
    proves,
    server_signature,
)
from .exchange import Proven, SaslFailure, Step
from .unknown_users import FormsOf, stand_in_credential, usual_forms

_NAME = r"(?:[^=,\0]|=2C|=3D)+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_CLIENT_FIRST = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>(?:,[A-Za-z]+=[^,\0]+)*))"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<unproven>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>{_NONCE})(?:,[A-Za-z]+=[^,\0]+)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)
MESSAGE_BYTES_MAX = 8 * 1024
"""A client's longer message is refused before it is parsed. Clients that have not authenticated can
send them, and parsing one of `sasl.server.max.receive.size` would hold up everybody for seconds;
Kafka has no such bound."""

_NONCE_BYTES = 24
_NONCE_TWICE = (
    "The client has sent its nonce twice, as librdkafka does before version 2.6.1, so that no"
    " password is accepted: use 2.6.1 or newer (kcat and confluent-kafka are built on it)."
)
"""Also sent to the client: it reveals nothing about the user, and otherwise the client would report
a wrong password."""
_USUAL_BINDING = "biws"
"""Base64 of `n,,`; franz-go sends it even if its header names an authorization id."""

CredentialOf = Callable[[ScramMechanism, str], ScramCredential | None]
"""The credential of a user for a mechanism; None if there is none."""


class ScramServer:
    """A SCRAM mechanism of a listener."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential_of: CredentialOf,
        cluster_secret: bytes,
        random_uuid: Callable[[], Uuid],
        forms_of: FormsOf = usual_forms,
        stored_secret: Callable[[], bytes] = bytes,
    ) -> None:
        """The salts of unknown users are derived from the secrets, the same on all brokers.

        `forms_of` returns the forms of real users' credentials, which those of unknown users copy.
        The cluster's `stored_secret` may become known only later.
        """
        self._forms_of = forms_of
        self._stored_secret = stored_secret
        self.name = mechanism.name
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._cluster_secret = cluster_secret
        self._random_uuid = random_uuid

    def begin(self) -> "ScramExchange":
        """Begin an exchange."""
        # Each has 122 random bits.
        random_bytes = hashlib.sha256(self._random_uuid() + self._random_uuid()).digest()
        nonce = base64.urlsafe_b64encode(random_bytes[:_NONCE_BYTES]).decode()
        return ScramExchange(self._mechanism, self._credential, nonce)

    def _credential(self, user: str) -> tuple[ScramCredential, bool]:
        """The user's credential; for an unknown user, one that no proof matches."""
        credential = self._credential_of(self._mechanism, user)
        # Made in either case, so that the time is the same.
        forms = self._forms_of(self._mechanism)
        secret = self._cluster_secret + self._stored_secret()
        stand_in = stand_in_credential(self._mechanism, user, secret, forms)
        return (stand_in, False) if credential is None else (credential, True)


class ScramExchange:
    """One client's proof: two messages each way."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential: Callable[[str], tuple[ScramCredential, bool]],
        nonce: str,
    ) -> None:
        """`nonce` is the server's part, printable and without a comma."""
        self._mechanism = mechanism
        self._credential_of = credential
        self._server_nonce = nonce
        self._client_nonce = ""
        self._full_nonce = ""
        self._user = ""
        self._bindings: tuple[str, ...] = ()
        self._signed_so_far = b""
        self._credential: ScramCredential | None = None
        self._user_exists = False

    def evaluate(self, token: bytes) -> Step:
        """Answer the client's first or final message. Raises SaslFailure."""
        if len(token) > MESSAGE_BYTES_MAX:
            raise SaslFailure(f"the message is longer than {MESSAGE_BYTES_MAX} bytes")
        try:
            message = token.decode()
        except UnicodeDecodeError:
            raise SaslFailure("the message is not UTF-8") from None
        if self._credential is None:
            return self._first(message)
        return self._final(message, self._credential)

    def _first(self, message: str) -> Step:
        match = _CLIENT_FIRST.fullmatch(message)
        if match is None:
            raise SaslFailure("the first message is malformed")
        user = _unescape(match["user"])
        if match["authzid"] is not None and _unescape(match["authzid"]) != user:
            raise SaslFailure("the authorization id is not the user name")
        if ",tokenauth=true" in match["extensions"]:
            raise SaslFailure("delegation tokens are not supported")
        self._user = user
        self._client_nonce = match["nonce"]
        self._full_nonce = self._client_nonce + self._server_nonce
        self._bindings = (encode64(match["gs2"].encode()), _USUAL_BINDING)
        credential, self._user_exists = self._credential_of(user)
        self._credential = credential
        answer = f"r={self._full_nonce},s={encode64(credential.salt)},i={credential.iterations}"
        self._signed_so_far = f"{match['bare']},{answer}".encode()
        return Step(answer.encode())

    def _final(self, message: str, credential: ScramCredential) -> Step:
        match = _CLIENT_FINAL.fullmatch(message)
        if match is None:
            raise SaslFailure("the final message is malformed")
        if match["nonce"] == self._client_nonce + self._full_nonce:
            raise SaslFailure(_NONCE_TWICE, _NONCE_TWICE)
        if not hmac.compare_digest(match["nonce"].encode(), self._full_nonce.encode()):
            raise SaslFailure("the final message has a different nonce")
        if match["binding"] not in self._bindings:
            raise SaslFailure("the final message has a different channel binding")
        signed = self._signed_so_far + b"," + match["unproven"].encode()
        try:
            proof = decode64(match["proof"])
        except ValueError:
            raise SaslFailure("the proof is malformed") from None
        is_proven = proves(self._mechanism, credential, signed, proof)
        if not (is_proven and self._user_exists):
            raise SaslFailure("the user is unknown or the password is wrong")
        signature = server_signature(self._mechanism, credential, signed)
        return Step(b"v=" + encode64(signature).encode(), Proven(self._user))


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
