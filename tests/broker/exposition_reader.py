"""Reads the text that Prometheus reads, strictly: what is not of its grammar fails the test."""

import re

Series = tuple[str, tuple[tuple[str, str], ...]]

_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)", re.DOTALL)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def parse_exposition(text: str) -> dict[Series, float]:
    """Every series with its value; each must be of a type told before, and stand there once."""
    found: dict[Series, float] = {}
    current = ""
    seen: set[str] = set()
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("# TYPE "):
            current, kind = line.split(" ")[2:]
            assert kind in ("counter", "gauge")
            assert current not in seen, f"{current} is not in one piece"
            seen.add(current)
        elif not line.startswith("# HELP "):
            match = _LINE.fullmatch(line)
            assert match is not None, line
            name, labels, value = match.groups()
            assert name == current, line
            series = (name, tuple(_labels(labels or "")))
            assert series not in found, f"{series} is there twice"
            found[series] = float(value)
    return found


def _labels(text: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = _LABEL.match(text, position)
        assert match is not None, text[position:]
        name, value = match.groups()
        pairs.append((name, re.sub(r'\\[\\"n]', lambda m: _ESCAPES[m.group()], value)))
        position = match.end()
    return pairs
