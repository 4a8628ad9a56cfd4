"""The code uses the field's words; what it still has of others only becomes less."""

from collections import Counter
from collections.abc import Callable

import pytest

from tierlog.tests.glossary import (
    PHRASE_CEILINGS,
    WORD_CEILINGS,
    banned_phrases,
    banned_words,
    layer_of,
)
from tierlog.tests.house_rules import Offences, SourceFile, source_files

Rule = Callable[[SourceFile], Offences]


def counts(rule: Rule) -> dict[str, int]:
    """How often each layer breaks the rule; layers that keep it are left out."""
    counter = Counter[str]()
    for file in source_files():
        layer = layer_of(file)
        if layer is not None:
            counter[layer] += len(list(rule(file)))
    return {layer: count for layer, count in counter.items() if count}


def broken_ceilings(counts: dict[str, int], ceilings: dict[str, int]) -> list[str]:
    """What is wrong with each layer whose count is not its ceiling."""
    sentences = list[str]()
    for layer in sorted({*counts, *ceilings}):
        count, ceiling = counts.get(layer, 0), ceilings.get(layer, 0)
        if count > ceiling:
            sentences.append(f"{layer} has {count}; its ceiling is {ceiling}: use other words")
        elif count < ceiling:
            sentences.append(f"{layer} has {count} only: lower its ceiling from {ceiling}")
    return sentences


def test_identifiers_are_nouns_and_verbs() -> None:
    assert broken_ceilings(counts(banned_words), WORD_CEILINGS) == []


def test_docstrings_log_lines_and_errors_speak_plainly() -> None:
    assert broken_ceilings(counts(banned_phrases), PHRASE_CEILINGS) == []


@pytest.mark.parametrize(
    "text",
    [
        "found = f()",
        "for known in f(): ...",
        "self._wanted = 1",
        "asked: int",
        "def learn(): ...",
        "async def _obey(): ...",
        "def f(told): ...",
        "def f(*, taken=1): ...",
        "class World: ...",
        "with f() as lent: ...",
        "try: ...\nexcept E as surroundings: ...",
        "match x:\n    case [whose, *_]: ...",
        "(complain := f())",
    ],
)
def test_a_planted_word_is_caught(text: str) -> None:
    assert len(list(banned_words(SourceFile("storage/x.py", text)))) == 1


@pytest.mark.parametrize("text", ["found_segments = f()", "f(known=1)", "x = 'found'", "x.told()"])
def test_a_word_in_a_longer_name_or_of_another_module_may_stand(text: str) -> None:
    assert list(banned_words(SourceFile("storage/x.py", text))) == []


@pytest.mark.parametrize(
    "text",
    [
        '"""Nobody\'s future."""',
        'def f():\n    """The leader is\n    told."""',
        'class F:\n    """From an earlier life."""',
        '_log.info("%s failed for a reason of our own", x)',
        'self._logger.warning(f"{x}: whose it is")',
        'raise ValueError("failed for a reason of its own")',
    ],
)
def test_a_planted_phrase_is_caught(text: str) -> None:
    assert len(list(banned_phrases(SourceFile("storage/x.py", text)))) == 1


@pytest.mark.parametrize("text", ["# The leader is told.", "x = 'is told'", "f('earlier life')"])
def test_a_phrase_that_no_operator_reads_is_not_looked_for(text: str) -> None:
    assert list(banned_phrases(SourceFile("storage/x.py", text))) == []


def test_a_count_above_its_ceiling_and_one_below_it_are_both_refused() -> None:
    assert broken_ceilings({"storage": 3}, {"storage": 3}) == []
    assert broken_ceilings({"storage": 3}, {}) == [
        "storage has 3; its ceiling is 0: use other words"
    ]
    assert broken_ceilings({}, {"storage": 3}) == ["storage has 0 only: lower its ceiling from 3"]
