"""Debian's Chromium without a window, and what its console says of a page.

    apt-get install chromium

Playwright drives the browser that the machine has, and fetches none of its own.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from typing import Literal

from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

COMMAND = "chromium"
WAIT_MS = 60_000
"""Far more than a page needs: the machine may do many things at once."""

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, Theme] = ("light", "dark")

# As root it needs --no-sandbox; the others keep it from talking to its maker.
_ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@contextmanager
def browser(executable: str) -> Generator[Browser]:
    """A running Chromium, which is closed at the end."""
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=executable, args=list(_ARGUMENTS), timeout=WAIT_MS
        )
        try:
            yield chromium
        finally:
            chromium.close()


class Tab:
    """A page in a profile of its own; whatever its console said is an error at the end."""

    def __init__(self, context: BrowserContext) -> None:
        context.set_default_timeout(WAIT_MS)
        self.page: Page = context.new_page()
        self.console: list[str] = []
        self.page.on("console", lambda message: self.console.append(message.text))
        self.page.on("pageerror", lambda error: self.console.append(str(error)))

    def open(self, url: str) -> None:
        """Load the address anew, and wait until the broker's answer is drawn."""
        self.page.goto("about:blank")
        self.page.goto(url)
        self.page.wait_for_selector("main:not(:has(.unscripted, .unanswered)) h1")

    def violations(self) -> list[str]:
        """What axe has to say against the page as it is."""
        script = (files("axe_playwright_python") / "axe.min.js").read_text()
        self.page.evaluate(script)
        results: Mapping[str, list[Mapping[str, object]]] = self.page.evaluate("axe.run()")
        return [f"{each['id']}: {each['help']}" for each in results["violations"]]


@contextmanager
def tab(
    chromium: Browser, theme: Theme = "light", *, scripts: bool = True, still: bool = False
) -> Generator[Tab]:
    """A new tab; `scripts`: whether JavaScript runs; `still`: whether motion shall be reduced."""
    context = chromium.new_context(
        color_scheme=theme,
        java_script_enabled=scripts,
        reduced_motion="reduce" if still else "no-preference",
        viewport={"width": 1180, "height": 800},
    )
    try:
        opened = Tab(context)
        yield opened
        assert opened.console == []
    finally:
        context.close()
