"""README's first screen: what it is, the page, how to start it, the fixture."""

import re

from tierlog.tests.house_rules import ROOT

README = (ROOT / "README.md").read_text()


def test_the_first_screen_comes_first_and_the_whole_is_short() -> None:
    steps = [
        "# tierlog",
        "prefers-color-scheme: dark",
        "uvx --from . tierlog serve",
        "`uvx tierlog serve`",
        "def test_an_order_arrives(tierlog_broker, tierlog_topic):",
        "rsm.config.url=s3://",
    ]
    places = [README.index(step) for step in steps]
    assert places == sorted(places)
    assert len(README.splitlines()) <= 120


def test_the_pictures_are_there() -> None:
    pictures = re.findall(r'src(?:set)?="([^"]+)"', README)
    assert len(pictures) == 2
    assert [name for name in pictures if not (ROOT / name).is_file()] == []
