"""Random requests for every API, about names that bear on each other, that leave both sides alike.

Names of topics, groups and transactional ids are the same few, so that entries of one kind that
decided about another would show. What a side has given itself (ids of topics and members) is
written as `Own`, and put in when the request is made for that side.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, TypeAlias, cast

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.schema import Message

from ..meaningful_requests import request

TOPICS = ("a", "ab", "b", "doomed")
"""The topics that there are; the last may be deleted, and is made again for the next entries."""

MISSING = ("ac", "z")
"""Topics, groups and transactional ids that there are not."""

GROUPS = ("a", "ab", "b")
"""Groups with committed offsets and no members."""

CLASSIC, CONSUMERS = "abc", "abd"
"""A group with a member of either protocol."""

PRODUCERS = ("a", "ab", "b")
"""Transactional ids without an open transaction."""

OPEN = "abc"
"""The transactional id of an open transaction."""

UNKNOWN_ID = Uuid(b"\x07" * 16)
"""An id that no topic has."""

Values = dict[str, object]


class Own(NamedTuple):
    """Something that each side knows by its own value: `kind` of `name`."""

    kind: str
    name: str


Owned: TypeAlias = Mapping[Own, object]


class Draw:
    """Draws the parts of one request."""

    def __init__(self, random: Random, version: int) -> None:
        self.random = random
        self.version = version

    def one(self, *of: object) -> object:
        """One of these."""
        return self.random.choice(of)

    def several(self, of: Sequence[str], most: int = 3) -> list[str]:
        """One to `most` of them, each once."""
        return self.random.sample(of, self.random.randint(1, min(most, len(of))))

    def flag(self) -> bool:
        """Yes or no."""
        return self.random.random() < 0.5

    def topic(self) -> str:
        return self.random.choice(TOPICS + MISSING)

    def topics(self) -> list[str]:
        return self.several(TOPICS + MISSING)

    def group(self) -> str:
        return self.random.choice((*GROUPS, CLASSIC, CONSUMERS, *MISSING))

    def groups(self) -> list[str]:
        return self.several((*GROUPS, CLASSIC, CONSUMERS, *MISSING))

    def producer(self) -> str:
        return self.random.choice((*PRODUCERS, OPEN, *MISSING))

    def producers(self) -> list[str]:
        return self.several((*PRODUCERS, OPEN, *MISSING))


Drawn = Callable[[Draw], Values]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How requests of one API are drawn, and which fields of their answers are not compared."""

    draw: Drawn
    ignoring: frozenset[str]
    is_of_plain_text: bool
    """Whether it is asked for where nobody has to say who he is, alone."""


RECIPES: dict[ApiKey, Recipe] = {}


def drawn(
    key: ApiKey, *, ignoring: tuple[str, ...] = (), is_of_plain_text: bool = False
) -> Callable[[Drawn], Drawn]:
    """Put the function below into the table."""

    def enter(draw: Drawn) -> Drawn:
        assert key not in RECIPES
        RECIPES[key] = Recipe(draw, frozenset(ignoring), is_of_plain_text)
        return draw

    return enter


def made(key: ApiKey, version: int, values: Values, own: Owned) -> Message:
    """The request of one side."""
    return request(key, version, **cast("Values", _with_own(values, own)))


def _with_own(value: object, own: Owned) -> object:
    match value:
        case Own():
            return own[value]
        case dict():
            return {
                name: _with_own(each, own)
                for name, each in cast("dict[str, object]", value).items()
            }
        case list():
            return [_with_own(each, own) for each in cast("list[object]", value)]
        case _:
            return value


def topic_id(name: str) -> object:
    """Each side's id of a topic; one that nobody has for a topic that is not there."""
    return Own("topic", name) if name in TOPICS else Uuid(name.encode().rjust(16, b"\x07"))
