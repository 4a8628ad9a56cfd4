"""The principal and the address of a client, as an Envelope carries them to the controller.

The principal is a `DefaultPrincipalData` with its version before it, as Kafka's
`DefaultKafkaPrincipalBuilder` writes it; the address is that of `InetAddress.getAddress`.
"""

from ipaddress import IPv6Address, ip_address
from struct import Struct as Format, error as StructError

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.codec import decoder_of, encode_bytes
from ...clients.protocol.messages.default_principal_data import DefaultPrincipalData

_VERSION = Format(">h")
_ELEMENTS_MAX = 16
_UNSPECIFIED = bytes(4)


def encode_principal(principal: str) -> bytes:
    """Encode a principal such as "User:ANONYMOUS"."""
    kind, _, name = principal.partition(":")
    data = DefaultPrincipalData(type=kind, name=name)
    return _VERSION.pack(0) + encode_bytes(data, 0)


def decode_principal(data: bytes | memoryview | None) -> str:
    """The principal as "type:name". Raises KafkaError(PRINCIPAL_DESERIALIZATION_FAILURE)."""
    try:
        if data is None:
            raise ValueError("The envelope has no principal.")
        (version,) = _VERSION.unpack_from(data)
        decode = decoder_of(DefaultPrincipalData, version)
        decoded, end = decode(memoryview(data), _VERSION.size, _ELEMENTS_MAX)
        assert isinstance(decoded, DefaultPrincipalData), "The decoder is of this class."
        if end != len(data):
            raise ValueError("More bytes follow.")
    except (StructError, ValueError, KafkaError) as error:
        raise KafkaError(
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
            "Failed to deserialize client principal from envelope",
        ) from error
    return f"{decoded.type}:{decoded.name}"


def encode_address(host: str) -> bytes:
    """The bytes of a client's address; those of 0.0.0.0 for a host that is no address."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return _UNSPECIFIED
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.packed


def decode_address(data: bytes | memoryview) -> str:
    """The address as text. Raises KafkaError(INVALID_REQUEST) unless it has 4 or 16 bytes."""
    try:
        return str(ip_address(bytes(data)))
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Failed to parse client address from envelope"
        ) from error
