"""PEM texts: private keys and certificates, as Kafka reads them (`PemStore`).

A block may stand on one line, with spaces for its line ends, as in a value of a properties file.
Text around the blocks is ignored.
"""

import binascii
import re
import textwrap
from typing import NamedTuple

_BLOCK = re.compile(
    r"(?<!-)-++BEGIN\s++(?P<label>[A-Z0-9 ]*?(?:PRIVATE KEY|CERTIFICATE))\s*+-++\s++"
    r"(?P<body>[A-Za-z0-9+/=\s]*+)-++END\s++(?P=label)\s*+-"
)
"""Nothing is tried twice: spaces that could belong to two parts would make a damaged store take the
third power of its size."""
_LINE = 64


class PemError(Exception):
    """A PEM text is not what it should be; `str(error)` follows the name of its property."""


class Block(NamedTuple):
    """One block: its label, such as ``CERTIFICATE``, and its content."""

    label: str
    der: bytes

    @property
    def text(self) -> str:
        """The block in the form that OpenSSL reads."""
        body = binascii.b2a_base64(self.der, newline=False).decode("ascii")
        lines = "\n".join(textwrap.wrap(body, _LINE))
        return f"-----BEGIN {self.label}-----\n{lines}\n-----END {self.label}-----\n"


def blocks(text: str) -> list[Block]:
    """The keys and certificates of a PEM text, in their order. Raises PemError."""
    content: list[Block] = []
    for match in _BLOCK.finditer(text):
        label = " ".join(match["label"].split())
        try:
            der = binascii.a2b_base64("".join(match["body"].split()), strict_mode=True)
        except binascii.Error:
            raise PemError(f"has a {label} block that is not base64") from None
        content.append(Block(label, der))
    return content


def private_key(text: str) -> Block:
    """The one private key of a PEM text, in PKCS#8. Raises PemError."""
    keys = [block for block in blocks(text) if block.label.endswith("PRIVATE KEY")]
    if not keys:
        raise PemError("has no private key: it needs one block BEGIN PRIVATE KEY (PKCS#8)")
    if len(keys) > 1:
        raise PemError(f"has {len(keys)} private keys: leave one")
    if keys[0].label not in ("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"):
        raise PemError(
            f"has a key of the form {keys[0].label}: convert it to PKCS#8 with"
            " openssl pkcs8 -topk8 -in old.pem -out new.pem"
        )
    return keys[0]


def certificates(text: str) -> list[Block]:
    """The certificates of a PEM text, at least one, in their order. Raises PemError."""
    content = [block for block in blocks(text) if block.label == "CERTIFICATE"]
    if not content:
        raise PemError("has no certificate: it needs at least one block BEGIN CERTIFICATE")
    return content
