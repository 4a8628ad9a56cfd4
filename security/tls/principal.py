"""The principal of a client's certificate, by `ssl.principal.mapping.rules` (`SslPrincipalMapper`).

The rules are Kafka's: ``DEFAULT`` gives the whole name, ``RULE:pattern/replacement/`` with L or U
at its end rewrites a name that the pattern matches whole, and the first rule that matches decides.
The name is the client's choice, so patterns are in RE2's language, which takes linear time.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from ...clients.linear_regex import InvalidRegexError, Pattern, compile_pattern
from ..session import ANONYMOUS
from .der import DerError, subject_of

_RULE = re.compile(
    r"(DEFAULT)|RULE:((?:\\/|[^/])*)/((?:\\/|[^/])*)/([LU]?)(?=\s*(?:,|$))", re.DOTALL
)
_REFERENCE = re.compile(r"\$(\d+)|\\(.)", re.DOTALL)


class MappingError(Exception):
    """The rules cannot be read; `str(error)` ends the message that names the property."""


class NoRuleMatchesError(Exception):
    """No rule fits a certificate's name: its owner is not let in."""


class _Rule(NamedTuple):
    pattern: Pattern | None
    """None for DEFAULT."""
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """The principal's name; None if the rule does not match."""
        if self.pattern is None:
            return name
        groups = self.pattern.groups(name)
        if groups is None:
            return None
        parts = (name, *groups)
        new = _REFERENCE.sub(
            lambda each: each[2] or parts[int(each[1])],
            self.replacement,
        )
        return {"L": new.lower, "U": new.upper}.get(self.case, lambda: new)()


def parse_rules(text: str) -> Callable[[str], str]:
    """A function from a distinguished name to the name of a principal.

    Raises MappingError; the function raises NoRuleMatchesError.
    """
    rules = _rules(text.strip() or "DEFAULT")

    def name_of(subject: str) -> str:
        for rule in rules:
            name = rule.apply(subject)
            if name is not None:
                return name
        raise NoRuleMatchesError(f"no rule of ssl.principal.mapping.rules matches {subject}")

    return name_of


def _rules(text: str) -> list[_Rule]:
    rules: list[_Rule] = []
    position = 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None:
            raise MappingError(
                "is not a list of DEFAULT and RULE:pattern/replacement/ (or .../L, .../U), from"
                f" {text[position : position + 40]!r} on"
            )
        rules.append(_Rule(None) if match[1] else _rewriting(match[2], match[3], match[4]))
        position = match.end()
        position += len(text[position:]) - len(text[position:].lstrip(" \t\r\n,"))
    return rules


def _rewriting(pattern: str, replacement: str, case: str) -> _Rule:
    try:
        compiled = compile_pattern(pattern.replace("\\/", "/"), captures=True)
    except InvalidRegexError as error:
        raise MappingError(f"has a pattern that RE2 cannot read: {pattern!r} ({error})") from None
    for reference in _REFERENCE.finditer(replacement):
        if reference[1] and int(reference[1]) > compiled.group_count:
            raise MappingError(f"has ${reference[1]}, which pattern {pattern!r} has no group for")
    return _Rule(compiled, replacement.replace("\\/", "/"), case)


def principal_of(certificate: bytes | None, name_of: Callable[[str], str]) -> str:
    """The principal of a client's certificate in DER; of none, everybody's.

    Raises NoRuleMatchesError.
    """
    if certificate is None:
        return ANONYMOUS
    try:
        return f"User:{name_of(subject_of(certificate))}"
    except DerError as error:
        raise NoRuleMatchesError(f"its certificate cannot be read: {error}") from None
