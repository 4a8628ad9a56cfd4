"""The value of `sasl.jaas.config`: a login module and its options (`JaasConfig`, KIP-85).

    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";

A class name, a control flag, ``key=value`` options with bare or quoted values, and a semicolon.
Comments are those of Java. A class is not loaded: its last part names one of three modules, and
every other one is refused, because login modules that open JNDI or LDAP were a way to run code
(CVE-2023-25194). Error messages never contain a value.
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from ..errors import ErrorCode, KafkaError
from .secret import Secret

_VALUE_MAX = 1 << 20
_FLAGS = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
_TOKEN = re.compile(
    r"""\s+ | //[^\n]*(?:\n|\Z) | /\*.*?\*/
    | "(?P<double>(?:[^"\\\n]|\\.)*)"
    | '(?P<single>(?:[^'\\\n]|\\.)*)'
    | (?P<sign>[=;])
    | (?P<word>[^\s"'=;/]+(?:/(?![/*])[^\s"'=;/]*)*|/(?![/*])[^\s"'=;]*)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class LoginModule(Enum):
    """The login modules of Kafka, by the last part of their class names."""

    PLAIN = "PlainLoginModule"
    SCRAM = "ScramLoginModule"
    OAUTHBEARER = "OAuthBearerLoginModule"


class JaasEntry(NamedTuple):
    """A login module with its options, whose values are secret."""

    module: LoginModule
    options: Mapping[str, Secret]

    def text(self, name: str) -> str | None:
        """An option that is no secret; None if it is not set."""
        value = self.options.get(name)
        return None if value is None else value.reveal()


def parse_jaas(value: str) -> JaasEntry:
    """Parse a value with exactly one login module. Raises KafkaError(INVALID_CONFIG)."""
    if len(value) > _VALUE_MAX:
        raise _refusal("it is longer than 1 MiB")
    tokens = list(_tokens(value))
    if not tokens:
        raise _refusal("it names no login module")
    is_bare, module = tokens[0]
    if not is_bare or len(tokens) < 2 or tokens[1] == (True, ";"):
        raise _refusal("a login module needs a control flag, such as `required`")
    flag = tokens[1][1].upper()
    if flag not in _FLAGS:
        raise _refusal("the control flag is none of required, requisite, sufficient and optional")
    end = tokens.index((True, ";")) if (True, ";") in tokens else -1
    if end < 0:
        raise _refusal("it does not end with a semicolon")
    if end < len(tokens) - 1:
        raise _refusal("it names more than one login module")
    return JaasEntry(_module(module), _options(tokens[2:end]))


def _module(class_name: str) -> LoginModule:
    name = class_name.rpartition(".")[2]
    try:
        return LoginModule(name)
    except ValueError:
        is_class = name.isidentifier() and name.endswith("Module")
        shown = name if is_class else "its class"
        names = ", ".join(each.value for each in LoginModule)
        raise _refusal(f"{shown} is not supported; the login modules are {names}") from None


def _options(tokens: list[tuple[bool, str]]) -> Mapping[str, Secret]:
    options: dict[str, Secret] = {}
    for begin in range(0, len(tokens), 3):
        option = tokens[begin : begin + 3]
        if len(option) < 3 or option[1] != (True, "=") or option[2] == (True, "="):
            raise _refusal(
                "each option is written key=value; quote a value that is not a single word"
            )
        name = option[0][1]
        if name in options:
            # Java uses the last one, which may be the password that should have gone.
            raise _refusal("an option is set twice")
        options[name] = Secret(option[2][1])
    return options


def _tokens(text: str) -> Iterator[tuple[bool, str]]:
    """The tokens, and whether each stood without quotes."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _refusal(f"character {position + 1} is not understood: is a quote missing?")
        position = match.end()
        kind = match.lastgroup
        if kind in ("double", "single"):
            yield False, _ESCAPE.sub(_unescape, match[kind])
        elif kind is not None:
            yield True, match[kind]


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8) & 0xFF)
    return _ESCAPED.get(escaped, escaped)


def _refusal(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"sasl.jaas.config cannot be read: {why}.")
