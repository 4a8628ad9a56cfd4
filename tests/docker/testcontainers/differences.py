"""What differs between a published module of Testcontainers and what is written down of it here.

Both are taken for the words that they have: variables, paths, programs, options, and the lines that
are awaited. Whoever moves a script, asks for another line or states a new variable changes a word.
"""

import re
from collections.abc import Iterable, Mapping

from tierlog.tests.docker.testcontainers.library import Library

_WORD = re.compile(r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?|--[a-z-]+")
_INTERFACE = (
    re.compile(r"\b(?:KAFKA_[A-Z0-9_]*[A-Z0-9]|CLUSTER_ID)\b"),
    re.compile(r"(?<![\w.:/}>*])/[a-z][\w./-]*\w"),
    re.compile(r"(?<![\w./-])(?:kafka|zookeeper)-[a-z][a-z-]*"),
    re.compile(r"(?<![\w-])--[a-z][a-z-]+"),
)
"""Variables, paths, programs, and options."""
_AWAITED = (
    re.compile(r'(?:forLogMessage|ForLog)\(\s*"((?:\\.|[^"\\])*)"'),
    re.compile(r'(?:re\.compile\(|check_string: str = )r"([^"]*)"'),
)
_FILLED_IN = re.compile(r"\$?\{[^{}\n]*\}")
"""What templates of JavaScript and Python, and scripts here, put into a text."""

NOT_OF_THE_IMAGE: Mapping[str, frozenset[str]] = {
    # Names of the program's own, and of another image.
    "java": frozenset({"KAFKA_PORT", "kafka-native"}),
    "node": frozenset(
        {
            *("KAFKA_PORT", "KAFKA_BROKER_PORT", "KAFKA_CONTROLLER_PORT"),
            # docs/docker.md says that this is not there: the user of the mode with ZooKeeper.
            *("kafka-configs", "--zookeeper", "--alter", "--add-config"),
            *("--entity-type", "--entity-name"),
        }
    ),
}
"""What a module names that no way here has, by its language."""
COMPUTED: Mapping[str, frozenset[str]] = {
    "java": frozenset({"9223372036854775807", "TC-0", "19092"}),
    "go": frozenset({"9223372036854775807", "test-cluster"}),
}
"""What a way has that its module computes, or is given by its user."""


def differences(language: str, code: str, ways: Iterable[Library]) -> list[str]:
    """A sentence for each difference, with the word; none if all is as it is written down."""
    ways = list(ways)
    ours = "\n".join(map(_text, ways))
    theirs = _FILLED_IN.sub(" ", code) if language in ("python", "node") else code
    gone = _words(ours) - _words(theirs) - COMPUTED.get(language, frozenset())
    new = _interface(theirs) - _interface(ours) - NOT_OF_THE_IMAGE.get(language, frozenset())
    awaited = {each.awaited.pattern for each in ways if each.awaited is not None}
    found = {match.replace(r"\\", "\\") for form in _AWAITED for match in form.findall(code)}
    return [
        *(f"the published module has no {word}" for word in sorted(gone)),
        *(f"only the published module has {word}" for word in sorted(new)),
        *(f"the published module does not await {line}" for line in sorted(awaited - found)),
        *(f"only the published module awaits {line}" for line in sorted(found - awaited)),
    ]


def _text(way: Library) -> str:
    """All that a way states, without what is filled in."""
    awaited = way.awaited.pattern if way.awaited is not None else ""
    stated = (*way.environment, *way.environment.values(), *way.command, way.script_path, awaited)
    text = "\n".join((*stated, _FILLED_IN.sub(" ", way.script)))
    for given in way.given:
        text = text.replace(given, " ")
    return text


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text) if len(word) > 1}


def _interface(text: str) -> set[str]:
    return {found for form in _INTERFACE for found in form.findall(text)}
