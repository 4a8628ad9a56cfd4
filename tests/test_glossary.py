"""Product code uses the field's words."""

from collections.abc import Callable

import pytest

from tierlog.tests.glossary import banned_phrases, banned_words, layer_of
from tierlog.tests.house_rules import Offences, SourceFile, source_files

Rule = Callable[[SourceFile], Offences]


@pytest.mark.parametrize("rule", [banned_words, banned_phrases], ids=lambda rule: rule.__name__)
def test_product_code_keeps_the_glossary(rule: Rule) -> None:
    offences = [
        f"{file.path}:{line}: {sentence}"
        for file in source_files()
        if layer_of(file) is not None
        for line, sentence in rule(file)
    ]
    assert not offences, "\n".join(offences)


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
        "def _tell_lag(): ...",
        "first_told = 1",
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
        '"""Whoever connects."""',
        'raise ValueError("it begins anew")',
    ],
)
def test_a_planted_phrase_is_caught(text: str) -> None:
    assert len(list(banned_phrases(SourceFile("storage/x.py", text)))) == 1


@pytest.mark.parametrize("text", ["# The leader is told.", "x = 'is told'", "f('earlier life')"])
def test_a_phrase_that_no_operator_reads_is_not_looked_for(text: str) -> None:
    assert list(banned_phrases(SourceFile("storage/x.py", text))) == []
