"""docs/log-messages.md lists every line that the code logs, and says what to do about it."""

from tierlog.tests.log_message_page import PAGE, actions, messages, page


def test_every_line_above_info_has_an_action() -> None:
    missing = [each for each in messages() if each.level != "INFO" and each.text not in actions()]
    assert not missing, "add what to do about them to tests/log_actions.toml"


def test_no_action_is_left_of_a_line_that_is_gone() -> None:
    gone = actions().keys() - {each.text for each in messages()}
    assert not gone, "remove them from tests/log_actions.toml"


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text() == page(), "`make log-messages` writes it anew"
