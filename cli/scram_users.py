"""`tierlog format --add-scram`: a cluster's first users (KIP-900, Kafka's `ScramParser`).

    SCRAM-SHA-256=[name=alice,password=secret]
    SCRAM-SHA-512=[name=alice,iterations=8192,salt=BASE64,saltedpassword=BASE64]

No error message contains a password.
"""

import base64
import binascii
import hashlib
import re

from ..clients.errors import ErrorCode, KafkaError
from ..clients.runtime.environment import Environment
from ..clients.sasl.scram_keys import (
    CREDENTIAL_ITERATIONS_MAX,
    CREDENTIAL_ITERATIONS_MIN,
    SCRAM_BY_NAME,
    credential_of,
    random_text,
    salted_password,
)
from ..replication.control.access.scram_control import credential_record
from ..replication.metadata.metadata_records import UserScramCredentialRecord

_MECHANISM_NAME = re.compile(r"[A-Z0-9_-]{1,20}")
"""What a name of a SASL mechanism may be (RFC 4422)."""
_KEYS = frozenset({"name", "salt", "iterations", "password", "saltedpassword"})


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def scram_user(argument: str, environment: Environment) -> UserScramCredentialRecord:
    """The record of the user that an argument names. Raises KafkaError(INVALID_CONFIG)."""
    name, equals, text = argument.strip().partition("=")
    if not equals:
        raise _refusal("Failed to find equals sign in the SCRAM argument")
    mechanism = SCRAM_BY_NAME.get(name)
    if mechanism is None:
        shown = name if _MECHANISM_NAME.fullmatch(name) else "(not shown, as it may be a secret)"
        raise _refusal(f"The add-scram mechanism {shown} is not supported.")
    if not text.startswith("["):
        raise _refusal("Expected configuration string to start with [")
    if not text.endswith("]"):
        raise _refusal("Expected configuration string to end with ]")
    options = _options(text[1:-1])
    user = options.get("name")
    if not user:
        raise _refusal("You must supply 'name' to add-scram")
    iterations = _iterations(options.get("iterations"), name)
    password = options.get("password")
    salt = _base64(options, "salt")
    salted = _base64(options, "saltedpassword")
    if password is None and salted is None:
        raise _refusal("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if password is None and salt is None:
        raise _refusal("You must supply 'salt' with 'saltedpassword' to add-scram")
    if salt is None:
        salt = random_text(
            hashlib.sha256(environment.random_uuid() + environment.random_uuid()).digest()
        )
    if password is not None:
        salted = salted_password(mechanism, password, salt, iterations)
    assert salted is not None, "It is stated or made."
    return credential_record(user, mechanism, credential_of(mechanism, salted, salt, iterations))


def _options(text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals:
            raise _refusal("No equals sign found in a SCRAM component")
        if len(value) >= 2 and value[0] == value[-1] == '"':
            value = value[1:-1]
        options[key] = value
    if options.keys() - _KEYS:
        # Not shown, unlike Kafka: after a comma in a password comes the rest of it.
        raise _refusal(
            f"Unknown SCRAM configurations: they are {', '.join(sorted(_KEYS))}, and no value can"
            " hold a comma; with salt= and saltedpassword= a password may have one"
        )
    return options


def _iterations(text: str | None, mechanism: str) -> int:
    if text is None:
        return CREDENTIAL_ITERATIONS_MIN
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise _refusal("Failed to parse iterations count: it is not a number")
    iterations = int(text)
    if iterations < CREDENTIAL_ITERATIONS_MIN:
        bound = f">= {CREDENTIAL_ITERATIONS_MIN}"
    elif iterations > CREDENTIAL_ITERATIONS_MAX:
        bound = f"<= {CREDENTIAL_ITERATIONS_MAX}"
    else:
        return iterations
    raise _refusal(f"The 'iterations' value must be {bound} for add-scram using {mechanism}")


def _base64(options: dict[str, str], key: str) -> bytes | None:
    text = options.get(key)
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise _refusal(f"Failed to decode given {key}: it is not base64") from None
