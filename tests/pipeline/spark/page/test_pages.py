"""The pages of the jobs in a browser: wide and narrow, light and dark, whatever is in them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tierlog.tests.broker.status.page.browser import COMMAND, THEMES, Theme, browser, tab
from tierlog.tests.pipeline.spark.page.hostile_reports import pages

pytestmark = [pytest.mark.long, pytest.mark.requires(COMMAND)]

WIDTHS = (1280, 400)
GROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 22, 29)"}
SIZE = "e => [e.scrollWidth, e.clientWidth]"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    executable = shutil.which(COMMAND)
    assert executable is not None
    with browser(executable) as running:
        yield running


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The pages, which are files as the jobs write them."""
    folder = tmp_path_factory.mktemp("pages")
    made: list[Path] = []
    for name, html in pages().items():
        made.append(folder / f"{name}.html")
        made[-1].write_text(html)
    return made


@pytest.mark.parametrize("theme", THEMES)
def test_a_page_is_never_wider_than_its_window_and_axe_finds_nothing(
    chromium: Browser, files: list[Path], theme: Theme
) -> None:
    with tab(chromium, theme) as opened:
        for file in files:
            for width in WIDTHS:
                opened.page.set_viewport_size({"width": width, "height": 800})
                opened.page.goto(file.as_uri())
                scrolled, shown = opened.page.locator("html").evaluate(SIZE)
                assert scrolled <= shown, (file.stem, width)
            assert opened.violations() == [], file.stem
            ground = opened.page.locator("body").evaluate("e => getComputedStyle(e).background")
            assert ground.startswith(GROUNDS[theme])


def test_nothing_from_the_tier_is_markup(chromium: Browser, files: list[Path]) -> None:
    with tab(chromium) as opened:
        for file in files:
            opened.page.goto(file.as_uri())
            assert opened.page.locator("script, img:not([src^='data:image/svg'])").count() == 0


def test_a_plot_keeps_its_room_when_names_are_long(chromium: Browser, files: list[Path]) -> None:
    with tab(chromium) as opened:
        opened.page.set_viewport_size({"width": 400, "height": 800})
        for file in files:
            opened.page.goto(file.as_uri())
            for plot in opened.page.locator("img").all():
                # On a narrow window it scrolls, and stays as large as can be read.
                assert plot.evaluate("e => e.clientWidth") >= 600, file.stem
