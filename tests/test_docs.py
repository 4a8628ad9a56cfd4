"""The documentation can be followed by somebody who has nothing but it."""

import re

import pytest

from tierlog.tests.house_rules import ROOT, source_files

DOCS = sorted((ROOT / "docs").glob("*.md"))
_ACTIVATION = "source .venv/bin/activate"
_BARE_COMMAND = re.compile(r"^ *tierlog(?:-bench|-spark)? (?:serve|tier|run|audit|[A-Z]+)\b")
_CODE_OF_A_RULE = re.compile(r" \((?:[A-Z]\d{1,2}(?:, )?)+\)")


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    absent = [page.name for page in DOCS if f"({page.name})" not in index]
    assert [name for name in absent if name != "README.md"] == []
    assert "(server.properties)" in index


@pytest.mark.parametrize("page", [*DOCS, ROOT / "README.md"], ids=lambda page: page.name)
def test_a_page_with_commands_says_how_they_come_on_the_path(page: object) -> None:
    text = (ROOT / "docs" / str(page)).read_text()
    if any(_BARE_COMMAND.match(line) for line in text.splitlines()):
        assert _ACTIVATION in text


def test_no_secret_stands_on_a_command_line() -> None:
    for page in [*DOCS, ROOT / "README.md"]:
        assert not re.search(r"--override \S*(secret|password|key)=", page.read_text()), page.name


def test_no_code_stands_for_a_rule_that_a_reader_does_not_have() -> None:
    texts = {file.path: (ROOT / file.path).read_text() for file in source_files()}
    texts |= {page.name: page.read_text() for page in [*DOCS, ROOT / "ARCHITECTURE.md"]}
    coded = [path for path, text in texts.items() if _CODE_OF_A_RULE.search(text)]
    assert coded == []
