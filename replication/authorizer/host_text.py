"""The text of a client's address, as entries name it.

Kafka compares the text of an entry with what Java prints of the peer's address: IPv6 in full,
without leading zeros (`InetAddress.getHostAddress`). Python prints it shortened. Here both become
Java's form, so that an entry's `::1` also means the client at `0:0:0:0:0:0:0:1`.
"""

from functools import lru_cache

_REMEMBERED_MAX = 4096


def host_text(address: str) -> str:
    """An address as Java prints it; what is no IPv6 address stays as it is."""
    return _of_ipv6(address) if ":" in address else address


@lru_cache(_REMEMBERED_MAX)
def _of_ipv6(address: str) -> str:
    from ipaddress import AddressValueError, IPv6Address

    try:
        parsed = IPv6Address(address)
    except AddressValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    number = int(parsed)
    groups = ":".join(f"{number >> shift & 0xFFFF:x}" for shift in range(112, -1, -16))
    return groups if parsed.scope_id is None else f"{groups}%{parsed.scope_id}"
