"""Who a certificate's owner is: distinguished names as Java prints them, and mapping rules."""

import ssl
from contextlib import suppress

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.security.tls.der import DerError, alternative_names, subject_of
from tierlog.security.tls.principal import (
    MappingError,
    NoRuleMatchesError,
    parse_rules,
    principal_of,
)
from tierlog.tests.security.tls.certificates import broker_certificate, named

SOMEBODY = named([("C", "DE"), ("CN", "somebody")])
DN = "CN=kafka1,OU=SME,O=mycp,L=Fulton,ST=MD,C=US"


def test_a_name_is_printed_as_java_prints_it() -> None:
    # What X500Principal.getName() says of the same certificate.
    der = named([("C", "DE"), ("CN", "a,b"), ("emailAddress", "x@y"), ("serialNumber", "7")])
    assert subject_of(der) == "2.5.4.5=#130137,1.2.840.113549.1.9.1=#1603784079,CN=a\\,b,C=DE"
    assert subject_of(named([("DC", "org"), ("UID", "u"), ("CN", ' #"x" ')])) == (
        'CN=\\ \\#\\"x\\"\\ ,UID=u,DC=org'
    )


def test_a_broker_has_alternative_names() -> None:
    certificate = broker_certificate().cert_chain_pems[0].bytes()
    names = alternative_names(ssl.PEM_cert_to_DER_cert(certificate.decode()))
    assert len(names) == 2


def test_an_endless_object_identifier_is_refused() -> None:
    # The attribute's type is one number of as many bytes as its value had, and its value nothing.
    der = named([("serialNumber", "7" * 120)])
    endless = b"\x06\x7b" + b"\xff" * 122 + b"\x01" + b"\x05\x00"
    damaged = der.replace(b"\x06\x03\x55\x04\x05\x13\x78" + b"7" * 120, endless)
    assert len(damaged) == len(der)
    assert damaged != der
    with pytest.raises(NoRuleMatchesError, match="cannot be read"):
        principal_of(damaged, parse_rules("DEFAULT"))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_certificates_are_refused_or_read(data: st.DataObject) -> None:
    der = bytearray(SOMEBODY)
    for _ in range(data.draw(st.integers(1, 4))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(der[: data.draw(st.integers(0, len(der)))])
    for read in (subject_of, alternative_names):
        with suppress(DerError):
            read(cut)


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", DN),
        ("", DN),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", DN),
        ("RULE:^CN=(.*?),OU=SME.*$/$1/", "kafka1"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L", "kafka1@sme"),
        ("RULE:^cn=(.*?),.*$/$1/L, RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U ,DEFAULT", "KAFKA1"),
        ("RULE:^CN=([^,]*),.*$/a\\/$1/", "a/kafka1"),
    ],
)
def test_the_first_rule_that_matches_decides(rules: str, name: str) -> None:
    assert parse_rules(rules)(DN) == name


def test_without_a_rule_that_matches_nobody_is_let_in() -> None:
    with pytest.raises(NoRuleMatchesError):
        parse_rules("RULE:^CN=other.*$/x/")(DN)
    with pytest.raises(NoRuleMatchesError):
        principal_of(b"no certificate", parse_rules("DEFAULT"))
    assert principal_of(None, parse_rules("RULE:x/y/")) == "User:ANONYMOUS"


@pytest.mark.parametrize(
    "rules", ["default", "RULE:a/b", "DEFAULT/L", "RULE:^CN=(.*)$/$2/", "RULE:(/x/", "RULE:a/b/LU"]
)
def test_rules_that_cannot_be_read_are_refused(rules: str) -> None:
    with pytest.raises(MappingError):
        parse_rules(rules)
