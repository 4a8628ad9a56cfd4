"""SCRAM's mechanisms and keys (RFC 5802, RFC 7677, KIP-84).

    SaltedPassword = PBKDF2(password, salt, iterations)
    ClientKey = HMAC(SaltedPassword, "Client Key")     StoredKey = H(ClientKey)
    ServerKey = HMAC(SaltedPassword, "Server Key")

Who verifies keeps StoredKey and ServerKey only: neither logs in as the client. Passwords are used
as their UTF-8 bytes: Kafka does not apply SASLprep.
"""

import base64
import binascii
import hashlib
import hmac
from typing import NamedTuple

CREDENTIAL_ITERATIONS_MIN = 4_096
CREDENTIAL_ITERATIONS_MAX = 16_384
"""The bounds of a credential's iterations (`ScramMechanism`)."""


_DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyz"


class ScramMechanism(NamedTuple):
    """One of the two mechanisms: its name, its number in requests and records, its hash."""

    name: str
    code: int
    hash_name: str

    def hmac(self, key: bytes, message: bytes) -> bytes:
        """HMAC with the mechanism's hash."""
        return hmac.digest(key, message, self.hash_name)

    def hash(self, data: bytes) -> bytes:
        """The mechanism's hash."""
        return hashlib.new(self.hash_name, data).digest()

    @property
    def key_bytes(self) -> int:
        """The length of a key."""
        return hashlib.new(self.hash_name).digest_size


SCRAM_SHA_256 = ScramMechanism("SCRAM-SHA-256", 1, "sha256")
SCRAM_SHA_512 = ScramMechanism("SCRAM-SHA-512", 2, "sha512")

SCRAM_BY_NAME = {mechanism.name: mechanism for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)}
SCRAM_BY_CODE = {mechanism.code: mechanism for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)}


class ScramCredential(NamedTuple):
    """What a server keeps of a user's password for one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, keys=********)"


def salted_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> bytes:
    """The salted password. Takes milliseconds: not for an event loop."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """The credential of a salted password."""
    stored_key = mechanism.hash(mechanism.hmac(salted, b"Client Key"))
    return ScramCredential(salt, stored_key, mechanism.hmac(salted, b"Server Key"), iterations)


def proof_of(mechanism: ScramMechanism, salted: bytes, auth_message: bytes) -> bytes:
    """The proof that a client sends: ClientKey XOR ClientSignature."""
    client_key = mechanism.hmac(salted, b"Client Key")
    signature = mechanism.hmac(mechanism.hash(client_key), auth_message)
    return _xor(client_key, signature)


def proves(
    mechanism: ScramMechanism, credential: ScramCredential, auth_message: bytes, proof: bytes
) -> bool:
    """Whether the proof comes from who has the password; the time says nothing of the keys."""
    signature = mechanism.hmac(credential.stored_key, auth_message)
    if len(proof) != len(signature):
        return False
    stored_key = mechanism.hash(_xor(proof, signature))
    return hmac.compare_digest(stored_key, credential.stored_key)


def server_signature(
    mechanism: ScramMechanism, credential: ScramCredential, auth_message: bytes
) -> bytes:
    """What proves to the client that the server has its credential."""
    return mechanism.hmac(credential.server_key, auth_message)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def random_text(chance: bytes) -> bytes:
    """A salt in the form of Kafka's: a number of 130 bits with the digits 0 to z.

    `chance` holds at least 17 random bytes.
    """
    number = int.from_bytes(chance[:17], "big") >> 6
    digits = bytearray()
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return bytes(reversed(digits))


def encode64(data: bytes) -> str:
    """Base64 with padding, which clients compare as text."""
    return base64.b64encode(data).decode()


def decode64(text: str) -> bytes:
    """Decode base64. Raises ValueError for anything else."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error
