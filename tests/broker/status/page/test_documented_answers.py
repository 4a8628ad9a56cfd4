"""What docs/status-page.md says the broker answers, as the page shows it in a browser."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tierlog.tests.broker.status.page.browser import COMMAND, THEMES, Theme, browser, tab
from tierlog.tests.broker.status.page.documented_answers import Answers, served

pytestmark = [pytest.mark.long, pytest.mark.requires(COMMAND)]

_TOPIC = "#/topics/orders"
_HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    executable = shutil.which(COMMAND)
    assert executable is not None
    with browser(executable) as running:
        yield running


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def url(answers: Answers) -> Iterator[str]:
    with served(answers) as address:
        yield address


def test_every_segment_is_drawn_with_its_place_and_stands_in_the_table(
    chromium: Browser, answers: Answers, url: str
) -> None:
    segments = answers.partition()["segments"]
    with tab(chromium) as opened:
        opened.open(url + _TOPIC)
        drawn = opened.page.locator("rect[data-base]")
        places = drawn.evaluate_all("all => all.map(e => [+e.dataset.base, e.dataset.where])")
        assert places == [[each["base"], each["where"]] for each in segments]
        opened.page.get_by_text("Partition 0 as tables").click()
        rows = opened.page.get_by_role("region", name="segments").locator("tbody tr")
        expect(rows).to_have_count(len(segments))
        expect(rows.nth(0)).to_contain_text("0 to 999")
        expect(rows.nth(0)).to_contain_text("tier only, deletion from the tier pending")
        expect(rows.nth(5)).to_contain_text("copy to the tier in flight (50 %)")


def test_a_fetch_is_explained_at_each_offset(chromium: Browser, answers: Answers, url: str) -> None:
    answers.partition().update(last_stable=7500, high_watermark=7800)
    with tab(chromium) as opened:
        opened.open(url + _TOPIC)
        field = opened.page.get_by_label("A fetch at offset")
        output = opened.page.locator(".fetch output")
        for offset, sentence in (
            ("2500", "The tier: segment 2,000 to 2,999, about byte 524,288 of 1,048,576"),
            ("3500", "The local disk: segment 3,000 to 3,999"),
            ("7600", "a read_committed consumer waits"),
            ("7900", "Nothing yet: the fetch waits until replicas have these records"),
            ("8000", "Nothing yet: this is the end of the log"),
            ("8001", "OFFSET_OUT_OF_RANGE, the log goes from 0 to 8,000"),
            ("-1", "An offset is a whole number"),
        ):
            field.fill(offset)
            expect(output).to_contain_text(sentence)


def test_the_picture_is_a_slider_for_the_keyboard(chromium: Browser, url: str) -> None:
    with tab(chromium) as opened:
        opened.open(url + _TOPIC)
        field = opened.page.get_by_label("A fetch at offset")
        slider = opened.page.get_by_role("slider", name="Partition 0")
        slider.focus()
        for key, offset in (
            *(("End", "8000"), ("ArrowLeft", "7000"), ("Shift+ArrowLeft", "6999")),
            *(("ArrowRight", "7000"), ("Home", "0"), ("ArrowRight", "1000")),
        ):
            opened.page.keyboard.press(key)
            expect(field).to_have_value(offset)
            expect(slider).to_have_attribute("aria-valuenow", offset)
        expect(slider).to_be_focused()


def test_a_link_to_the_content_comes_first_and_stays_on_the_page(
    chromium: Browser, url: str
) -> None:
    with tab(chromium) as opened:
        opened.open(url + _TOPIC)
        opened.page.keyboard.press("Tab")
        opened.page.keyboard.press("Enter")
        expect(opened.page.locator("main")).to_be_focused()
        expect(opened.page.locator("h1")).to_have_text("orders")


@pytest.mark.parametrize("theme", THEMES)
def test_axe_has_nothing_against_any_page(chromium: Browser, url: str, theme: Theme) -> None:
    with tab(chromium, theme, still=True) as opened:
        for route in ("", "#/topics", _TOPIC, "#/groups", "#/tier", "#/brokers"):
            opened.open(url + route)
            for summary in opened.page.locator("summary").all():
                summary.click()
            assert opened.violations() == [], route


def test_a_name_with_markup_in_it_is_text(chromium: Browser, answers: Answers, url: str) -> None:
    answers.partition()["groups"][0]["group"] = _HOSTILE
    answers.resources["topics"]["topics"][0]["groups"][0]["group"] = _HOSTILE
    answers.resources["topics"]["topics"][0]["name"] = _HOSTILE
    answers.resources["groups"]["groups"][0]["group"] = _HOSTILE
    with tab(chromium) as opened:
        for route in (_TOPIC, "#/topics", "#/groups"):
            opened.open(url + route)
            expect(opened.page.get_by_text(_HOSTILE).first).to_be_visible()
            assert opened.page.locator("img").count() == 0


def test_a_name_cannot_turn_what_stands_beside_it_around(
    chromium: Browser, answers: Answers, url: str
) -> None:
    """U+202E would have the lag after the name read from right to left: 0021 for 1200."""
    groups = answers.resources["topics"]["topics"][0]["groups"]
    groups[:] = [{"group": "a\u202eb\nc", "lag": 1200}]
    with tab(chromium) as opened:
        opened.open(url + "#/topics")
        expect(opened.page.locator(".chips li")).to_have_text("a\ufffdb\ufffdc 1,200")


@pytest.mark.parametrize("route", ["#/topics/%", "#/constructor", "#/topics/..", "#/topics?from=x"])
def test_an_address_that_is_none_leaves_the_page_alive(
    chromium: Browser, url: str, route: str
) -> None:
    with tab(chromium) as opened:
        opened.page.goto(url + route)
        opened.page.get_by_role("link", name="Overview", exact=True).click()
        expect(opened.page.locator("h1")).to_have_text("Overview")
        expect(opened.page.locator(".cards")).to_be_visible()
        opened.console[:] = [each for each in opened.console if "Failed to load" not in each]


def test_topics_are_sorted_by_lag_and_filtered(
    chromium: Browser, answers: Answers, url: str
) -> None:
    topics = answers.resources["topics"]["topics"]
    topics.append({**topics[0], "name": "payments", "groups": [{"group": "fraud", "lag": 9000}]})
    topics.append({**topics[0], "name": "__consumer_offsets", "internal": True, "groups": []})
    with tab(chromium) as opened:
        opened.open(url + "#/topics")
        names = opened.page.locator("tbody th a")
        expect(names).to_have_text(["orders", "payments"])
        opened.page.get_by_role("button", name="Groups and lag").click()
        expect(names).to_have_text(["payments", "orders"])
        opened.page.get_by_label("Filter").fill("billing")
        expect(names).to_have_text(["orders"])
        opened.page.get_by_label("Filter").fill("")
        opened.page.get_by_label("internal topics").check()
        expect(names).to_have_count(3)


def test_what_has_not_changed_is_not_sent_again_and_silence_is_said(
    chromium: Browser, answers: Answers, url: str
) -> None:
    with tab(chromium) as opened:
        opened.open(url)
        with opened.page.expect_response(lambda each: each.status == 304):
            pass
        trouble = opened.page.locator("#trouble")
        answers.is_silent = True
        expect(trouble).to_contain_text("The broker has not answered since")
        expect(opened.page.locator("h1")).to_have_text("Overview")
        answers.is_silent = False
        expect(trouble).to_be_empty()
        # The browser's own words about each request that got no answer.
        opened.console[:] = [each for each in opened.console if "Failed to load" not in each]


def test_nothing_moves_for_those_who_want_it_so(chromium: Browser, url: str) -> None:
    for still, name in ((True, "none"), (False, "copy")):
        with tab(chromium, still=still) as opened:
            opened.open(url + _TOPIC)
            copying = opened.page.locator(".plot .copying").first
            assert copying.evaluate("e => getComputedStyle(e).animationName") == name
