"""What a certificate says of its owner, read from DER: subject and alternative names.

The subject's text is Java's `X500Principal.getName()` (RFC 2253), because ACLs and mapping rules
are written for it: the most specific part first, nine attributes by name, any other as its object
identifier with the hexadecimal digits of its value. Lengths are checked against the bytes that are
there, and nesting is never followed deeper than the format has it.
"""

from collections.abc import Iterator

_SEQUENCE, _EXTENSIONS, _VERSION = 0x30, 0xA3, 0xA0
_OCTETS, _INTEGER, _CONSTRUCTED = 0x04, 0x02, 0x20
_NESTED = b"\x30"
_ELEMENTS_MAX = 100_000
"""Looked at for counts of iterations: what a store holds before them is small."""
_SUBJECT_ALTERNATIVE_NAME = "2.5.29.17"
_NAMES = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_TEXTS = {
    0x0C: "utf-8",
    0x12: "ascii",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
_ESCAPED = frozenset(',=+<>#;"\\')
_LENGTH_BYTES_MAX = 4
_ARC_END = 1 << 256
"""No identifier's number is so large; those of UUIDs have 128 bits."""


class DerError(Exception):
    """The bytes are no certificate."""


def _elements(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The elements of a sequence: tag, content, and the whole element. Raises DerError."""
    position = 0
    while position < len(data):
        if len(data) - position < 2:
            raise DerError("an element is cut off")
        tag, size, start = data[position], data[position + 1], position + 2
        if size & 0x80:
            count = size & 0x7F
            if not 0 < count <= _LENGTH_BYTES_MAX or len(data) < start + count:
                raise DerError("an element has no valid length")
            size, start = int.from_bytes(data[start : start + count], "big"), start + count
        end = start + size
        if end > len(data):
            raise DerError("an element is longer than its place")
        yield tag, data[start:end], data[position:end]
        position = end


def _identifier(content: bytes) -> str:
    """An object identifier with dots."""
    arcs: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if value >= _ARC_END:
            raise DerError("an object identifier has a number that is too large")
        if not byte & 0x80:
            arcs.append(value)
            value = 0
    if not arcs or value:
        raise DerError("an object identifier is cut off")
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - first * 40, *arcs[1:])))


def _only(data: bytes) -> bytes:
    """The content of the one element that the data consists of."""
    for _, content, _ in _elements(data):
        return content
    raise DerError("an element is missing")


def _fields(certificate: bytes) -> list[tuple[int, bytes, bytes]]:
    """The fields of the part that is signed, from the serial number on."""
    fields = list(_elements(_only(_only(certificate))))
    if fields and fields[0][0] == _VERSION:
        fields = fields[1:]
    if len(fields) < 6:
        raise DerError("a certificate has too few fields")
    return fields


def subject_of(certificate: bytes) -> str:
    """The subject's distinguished name as Java prints it. Raises DerError."""
    tag, subject, _ = _fields(certificate)[4]
    if tag != _SEQUENCE:
        raise DerError("a certificate has no subject")
    parts = [_relative_name(content) for _, content, _ in _elements(subject)]
    return ",".join(reversed(parts))


def _relative_name(attributes: bytes) -> str:
    return "+".join(_attribute(content) for _, content, _ in _elements(attributes))


def _attribute(content: bytes) -> str:
    pair = list(_elements(content))
    if len(pair) != 2:
        raise DerError("an attribute of a name is not a pair")
    identifier = _identifier(pair[0][1])
    tag, value, whole = pair[1]
    name = _NAMES.get(identifier)
    encoding = _TEXTS.get(tag)
    if name is None or encoding is None:
        return f"{name or identifier}=#{whole.hex()}"
    try:
        text = value.decode(encoding)
    except UnicodeDecodeError:
        return f"{name}=#{whole.hex()}"
    return f"{name}={_escape(text)}"


def _escape(text: str) -> str:
    """A value with RFC 2253's escapes; leading and trailing spaces are escaped too."""
    inner = text.strip(" ")
    leading = len(text) - len(text.lstrip(" ")) if inner else len(text)
    trailing = len(text) - leading - len(inner)
    body = "".join(f"\\{each}" if each in _ESCAPED else each for each in inner)
    return "\\ " * leading + body + "\\ " * trailing


def alternative_names(certificate: bytes) -> frozenset[bytes]:
    """The subject's alternative names, each as its DER. Raises DerError."""
    for tag, content, _ in _fields(certificate):
        if tag != _EXTENSIONS:
            continue
        for _, extension, _ in _elements(_only(content)):
            parts = list(_elements(extension))
            if parts and _identifier(parts[0][1]) == _SUBJECT_ALTERNATIVE_NAME:
                if parts[-1][0] != _OCTETS:
                    raise DerError("an extension has no value")
                return frozenset(whole for _, _, whole in _elements(_only(parts[-1][1])))
    return frozenset()


def most_iterations(store: bytes) -> int:
    """The most often that a store, or an encrypted key, wants its password to be hashed.

    The count follows the salt in each form that has one (RFC 7292, RFC 8018). What is no DER, and
    what is encrypted itself, has none.
    """
    most = 0
    places = [store]
    elements_left = _ELEMENTS_MAX
    while places:
        salt_before = False
        try:
            for tag, content, _ in _elements(places.pop()):
                elements_left -= 1
                if not elements_left:
                    return most
                if tag & _CONSTRUCTED or (tag == _OCTETS and content[:1] == _NESTED):
                    places.append(content)
                elif tag == _INTEGER and salt_before:
                    most = max(most, int.from_bytes(content, "big"))
                salt_before = tag == _OCTETS
        except DerError:
            continue
    return most
