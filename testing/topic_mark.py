"""The mark `tierlog_topic`: what it says of the test's topic, and what is wrong with it.

    @pytest.mark.tierlog_topic(3, retention_ms=1000)

Marks of a class or a module are for all of its tests; what a nearer mark says of the same counts.
A mark that nobody would read is refused.
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pytest

NAME: Final = "tierlog_topic"
DESCRIPTION: Final = (
    f"{NAME}(partitions=1, **configs): the partitions and configs of the test's topic"
)

_USAGE: Final = f"write @pytest.mark.{NAME}(3, retention_ms=1000)"


class TopicMarkError(Exception):
    """A mark that is wrong; the text is one sentence."""


def topic_settings(test: "pytest.Item") -> dict[str, Any]:
    """The arguments of `Broker.create_topic`, from all marks of a test. Raises TopicMarkError."""
    settings: dict[str, Any] = {}
    # The nearest comes first, and of two at one function the lower one.
    for mark in test.iter_markers(NAME):
        settings = {**_settings_of(mark), **settings}
    return settings


def _settings_of(mark: "pytest.Mark") -> dict[str, Any]:
    settings = dict(mark.kwargs)
    if len(mark.args) > 1 or (mark.args and "partitions" in settings):
        raise TopicMarkError(
            f"The mark {_shown(mark)} has one argument without a name, the partitions: {_USAGE}."
        )
    if mark.args:
        settings["partitions"] = mark.args[0]
    if not settings:
        raise TopicMarkError(f"The mark {NAME} says nothing: {_USAGE}.")
    partitions = settings.get("partitions", 1)
    if not isinstance(partitions, int) or isinstance(partitions, bool) or partitions < 1:
        raise TopicMarkError(
            f"The mark {_shown(mark)} has {partitions!r} for the number of partitions: {_USAGE}."
        )
    if "name" in settings:
        raise TopicMarkError(
            f"The mark {_shown(mark)} names the topic, which has a name of its own in each test: "
            "use tierlog_broker.create_topic(name) instead."
        )
    return settings


def unused_mark(test: "pytest.Item") -> str:
    """A sentence about a mark of the test itself, for one that has not used its topic."""
    mine = next((mark for mark in test.own_markers if mark.name == NAME), None)
    if mine is None:
        return ""
    return (
        f"The test has the mark {_shown(mine)}, but no topic that it could be for: "
        f"add the fixture {NAME} to its arguments, or remove the mark."
    )


def _shown(mark: "pytest.Mark") -> str:
    arguments = [repr(each) for each in mark.args]
    arguments += [f"{name}={value!r}" for name, value in mark.kwargs.items()]
    return f"{NAME}({', '.join(arguments)})"
