"""Numbers stand with the nouns and verbs that belong to them."""

import pytest

from tierlog.clients.text_table import counted, table


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0 segments are"),
        (1, "1 segment is"),
        (2, "2 segments are"),
        (1000, "1,000 segments are"),
    ],
)
def test_one_is_not_many(number: int, said: str) -> None:
    assert counted(number, "segment", "is", "are") == said
    assert f"{counted(number, 'segment')} " == said.removesuffix("is").removesuffix("are")


def test_numbers_of_a_table_end_below_each_other() -> None:
    assert table(("name", "size"), [("a", "9"), ("long one", "1,024")]) == [
        "name      size",
        "a             9",
        "long one  1,024",
    ]
