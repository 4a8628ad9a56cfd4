"""What a profile says in words and figures."""

import pytest

from tierlog.pipeline.spark.profile.profile_report import key_text


@pytest.mark.parametrize(
    ("key", "text"), [(b"", "(empty)"), (b"orders", "orders"), (b"\xff\x00", "0xff00")]
)
def test_a_key_is_shown_as_people_read_it(key: bytes, text: str) -> None:
    assert key_text(key) == text
