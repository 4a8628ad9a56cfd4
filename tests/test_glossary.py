"""Names and messages are in the field's own words: see `glossary.py`."""

import pytest

from tierlog.tests.glossary import ALLOWED, banned_names, banned_phrases, counts_of
from tierlog.tests.house_rules import SourceFile, source_files


def test_no_banned_name_is_added_and_the_counts_only_go_down() -> None:
    counts = counts_of(source_files())
    more = {
        f"{file.path}:{line}: {name}"
        for file in source_files()
        if counts.get(file.path.split("/")[0], 0) > ALLOWED.get(file.path.split("/")[0], 0)
        for line, name in banned_names(file)
    }
    assert counts == ALLOWED, "\n".join(
        [f"names to be bettered: {counts}, allowed: {ALLOWED}; lower what is lower", *sorted(more)]
    )


def test_no_string_of_the_code_has_a_banned_phrase() -> None:
    assert [
        f"{file.path}:{line}: {phrase}"
        for file in source_files()
        if file.is_code
        for line, phrase in banned_phrases(file)
    ] == []


@pytest.mark.parametrize(
    "text",
    [
        "found = 1",
        "class World: ...",
        "def f(wanted): ...",
        "def learn(): ...",
        "self._known = 1",
        "for seen in x: ...",
        "async def obey(): ...",
    ],
)
def test_a_banned_name_is_caught(text: str) -> None:
    assert list(banned_names(SourceFile("storage/x.py", text)))
    assert counts_of([SourceFile("storage/x.py", text)])["storage"] == 1


def test_a_word_that_is_part_of_a_name_is_free() -> None:
    text = "known_position = find_known(wanted_by=1)\nlog.found\n"
    assert not list(banned_names(SourceFile("storage/x.py", text)))


def test_a_banned_phrase_is_caught_in_a_message_and_free_in_a_docstring() -> None:
    text = '"""Whatever: whose it is."""\nraise E("It failed for a reason of our own.")\n'
    assert list(banned_phrases(SourceFile("broker/x.py", text))) == [(2, "reason of our own")]
