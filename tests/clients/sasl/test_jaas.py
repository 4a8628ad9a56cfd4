"""The value of `sasl.jaas.config`, as Kafka's brokers and clients write it."""

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.sasl.jaas import LoginModule, parse_jaas

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("value", "options"),
    [
        (f'{_PLAIN} required user_alice="secret";', {"user_alice": "secret"}),
        (f"{_PLAIN} REQUIRED user_alice=secret ;", {"user_alice": "secret"}),
        (f"{_PLAIN} requisite user_alice='a b=c;d';", {"user_alice": "a b=c;d"}),
        (f'{_PLAIN} optional a="say \\"no\\"" b="\\101\\n";', {"a": 'say "no"', "b": "A\n"}),
        (f"{_PLAIN} sufficient // none\n /* none; */;", {}),
        (f'{_PLAIN} required\n  username="b"\n  password="pä$$wörd"; ', None),
        ("PlainLoginModule required path=/etc/x;", {"path": "/etc/x"}),
    ],
)
def test_the_grammar_of_java_is_read(value: str, options: dict[str, str] | None) -> None:
    entry = parse_jaas(value)
    assert entry.module is LoginModule.PLAIN
    wanted = {"username": "b", "password": "pä$$wörd"} if options is None else options
    assert {name: each.reveal() for name, each in entry.options.items()} == wanted
    assert entry.text("nothing") is None


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "no login module"),
        ("// only a comment", "no login module"),
        (f"{_PLAIN};", "control flag"),
        (f"{_PLAIN} always;", "control flag"),
        (f'{_PLAIN} required a="hidden-value"', "semicolon"),
        (f"{_PLAIN} required; {_PLAIN} required;", "more than one"),
        (f'{_PLAIN} required a="hidden-value" b;', "key=value"),
        (f"{_PLAIN} required a=hidden-value a=hidden-value;", "twice"),
        (f'{_PLAIN} required a="hidden-value;', "quote"),
        ("com.sun.security.auth.module.JndiLoginModule required a=hidden-value;", "Jndi"),
        ("com.sun.security.auth.module.LdapLoginModule required a=hidden-value;", "Ldap"),
        (f"{_PLAIN} required a={'x' * (1 << 20)};", "1 MiB"),
    ],
)
def test_anything_else_is_refused_without_a_value(value: str, why: str) -> None:
    with pytest.raises(KafkaError, match=why) as raised:
        parse_jaas(value)
    assert raised.value.code is ErrorCode.INVALID_CONFIG
    assert "hidden-value" not in str(raised.value)


def test_no_way_of_printing_an_entry_shows_a_value() -> None:
    entry = parse_jaas(f'{_PLAIN} required user_alice="hidden-value";')
    shown = f"{entry} {entry!r} {entry.options} {[*entry.options.values()]}"
    assert "hidden-value" not in shown
    assert "********" in shown
