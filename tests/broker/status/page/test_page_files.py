"""The page's files are few, small, and cannot turn a name into markup."""

import re

from tierlog.tests.broker.status.page.documented_answers import DOCUMENT, PAGE

_BYTES_MAX = 80 * 1024
_MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc")
_CODE = re.compile(r"\beval\b|new Function|setTimeout\(['\"]")


def test_all_together_they_are_small() -> None:
    sizes = {file.name: file.stat().st_size for file in PAGE.iterdir()}
    assert set(sizes) == {"index.html", "status.js", "status.css", "icon.svg"}
    assert sum(sizes.values()) < _BYTES_MAX


def test_no_text_becomes_markup_or_code() -> None:
    script = (PAGE / "status.js").read_text()
    assert _MARKUP.findall(script) == []
    assert _CODE.findall(script) == []


def test_the_policy_has_nothing_to_refuse() -> None:
    html = (PAGE / "index.html").read_text()
    assert re.findall(r"\sstyle=|\son\w+=|<style|javascript:", html) == []
    assert re.findall(r"\bstyle:", (PAGE / "status.js").read_text()) == []
    for file in PAGE.iterdir():
        addresses = set(re.findall(r"https?://[^\s\"']+", file.read_text()))
        assert addresses <= {"http://www.w3.org/2000/svg"}, file.name


def test_without_javascript_it_names_the_addresses_of_the_documented_api() -> None:
    html = (PAGE / "index.html").read_text()
    named = set(re.findall(r'href="(api/v1/\w+)"', html))
    documented = set(re.findall(r"^## `GET /(api/v1/\w+)`", DOCUMENT.read_text(), re.MULTILINE))
    assert named == documented


def test_without_javascript_it_leads_to_the_tables() -> None:
    html = (PAGE / "index.html").read_text()
    head, _, body = html.partition("</head>")
    assert '<noscript><meta http-equiv="refresh" content="0; url=tables"></noscript>' in head
    assert '<a href="tables">tables</a>' in body
