"""Addresses as Java prints them."""

import pytest

from tierlog.replication.authorizer.host_text import host_text


@pytest.mark.parametrize(
    ("address", "printed"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("*", "*"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::", "0:0:0:0:0:0:0:0"),
        ("2001:db8::ff00:42:8329", "2001:db8:0:0:0:ff00:42:8329"),
        ("2001:0DB8:0000:0000:0000:FF00:0042:8329", "2001:db8:0:0:0:ff00:42:8329"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("no:address", "no:address"),
        ("host.example", "host.example"),
        ("", ""),
    ],
)
def test_the_text_of_an_address(address: str, printed: str) -> None:
    assert host_text(address) == printed
    assert host_text(printed) == printed
