"""The documentation can be followed by somebody who has nothing but it."""

import re
from pathlib import Path

import pytest

from tierlog.tests.house_rules import ROOT, source_files

DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [
    *DOCS,
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")),
]
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
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


def _anchors(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    broken: list[str] = []
    for name, anchor in _LINK.findall(page.read_text()):
        target = (page.parent / name) if name else page
        is_page = target.is_file() and target.suffix == ".md"
        if not target.exists() or (anchor and is_page and anchor not in _anchors(target)):
            broken.append(f"{name}#{anchor}")
    assert broken == []


def test_no_page_installs_from_a_registry_that_does_not_have_tierlog() -> None:
    for page in [*DOCS, ROOT / "README.md"]:
        assert "pip install 'tierlog" not in page.read_text(), page.name


def test_no_secret_stands_on_a_command_line() -> None:
    for page in [*DOCS, ROOT / "README.md"]:
        assert not re.search(r"--override \S*(secret|password|key)=", page.read_text()), page.name


def test_no_code_stands_for_a_rule_that_a_reader_does_not_have() -> None:
    texts = {file.path: (ROOT / file.path).read_text() for file in source_files()}
    texts |= {page.name: page.read_text() for page in [*DOCS, ROOT / "ARCHITECTURE.md"]}
    coded = [path for path, text in texts.items() if _CODE_OF_A_RULE.search(text)]
    assert coded == []
