"""Makes docs/pictures/status-page-light.png and -dark.png from what docs/status-page.md shows.

python -m tierlog.tests.broker.status.page.pictures
"""

import shutil
import sys

from tierlog.tests.broker.status.page.browser import COMMAND, THEMES, browser, tab
from tierlog.tests.broker.status.page.documented_answers import Answers, served
from tierlog.tests.house_rules import ROOT

_FOLDER = ROOT / "docs" / "pictures"
_FRAUD = {"group": "fraud", "offset": 6400, "lag": 1600, "lag_in_tier": 0, "lag_local": 1600}
_AUDIT = {"group": "audit", "offset": 8000, "lag": 0, "lag_in_tier": 0, "lag_local": 0}


def make(executable: str) -> None:
    """Write a picture of a topic's page in each theme."""
    answers = Answers()
    answers.partition()["groups"] += [_FRAUD, _AUDIT]
    with served(answers) as url, browser(executable) as chromium:
        for theme in THEMES:
            with tab(chromium, theme, still=True) as opened:
                opened.open(f"{url}#/topics/orders")
                opened.page.get_by_label("A fetch at offset").fill("2345")
                opened.page.locator("h1").click()
                file = _FOLDER / f"status-page-{theme}.png"
                opened.page.set_viewport_size({"width": 1180, "height": 600})
                opened.page.screenshot(path=file)


if __name__ == "__main__":
    command = shutil.which(COMMAND)
    if command is None:
        sys.exit("There is no chromium: install it with `apt-get install chromium`.")
    make(command)
