"""Keeps what variables stand for out of sentences (`config_providers.py`).

A check repeats the value that it refuses. If a variable stands there, the sentence shows the
variable instead: a secret in the wrong property is a secret still.
"""

import re
from collections.abc import Iterator, Mapping

_VARIABLE = re.compile(r"\$\{[^}]*\}")
_SHORTEST = 4
"""Shorter values stay, as they occur in any sentence."""


def without_values(sentence: str, stated: Mapping[str, str], resolved: Mapping[str, str]) -> str:
    """The sentence with the variables of the `stated` properties in place of their values."""
    replaced: dict[str, str] = {}
    for name, text in stated.items():
        if resolved.get(name, text) != text:
            replaced.update(_values(text, resolved[name]))
    # The longest first: a part of a value may be a value, too.
    for value in sorted(replaced, key=len, reverse=True):
        for form in (value, value.upper(), value.lower()):
            sentence = sentence.replace(form, replaced[value])
    return sentence


def _values(text: str, value: str) -> Iterator[tuple[str, str]]:
    """What stands in a value for each variable of its text, and for all of the text."""
    literals = [re.escape(each) for each in _VARIABLE.split(text)]
    match = re.fullmatch("(.*?)".join(literals), value, re.DOTALL)
    variables = _VARIABLE.findall(text)
    parts = zip(match.groups() if match else (), variables, strict=False)
    for part, variable in ((value.strip(), text.strip()), *parts):
        yield from ((each, variable) for each in _pieces(part) if len(each) >= _SHORTEST)


def _pieces(part: str) -> list[str]:
    """The part, and its elements if it is a list: a check names the first that it refuses."""
    return [part, *(each.strip() for each in part.split(","))]
