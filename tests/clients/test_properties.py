"""server.properties files are read as `java.util.Properties` reads them."""

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.errors import KafkaError
from tierlog.clients.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a\t=\tb", {"a": "b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a = :b", {"a": ":b"}),
        ("# comment\n! another\n\n  \na=b", {"a": "b"}),
        ("   indented=yes", {"indented": "yes"}),
        ("list=one,\\\n     two", {"list": "one,two"}),
        ("path=c:\\\\temp", {"path": "c:\\temp"}),
        ("key\\ with\\=signs=v", {"key with=signs": "v"}),
        ("tab=a\\tb\\n", {"tab": "a\tb\n"}),
        ("unicode=\\u00e9", {"unicode": "é"}),
        ("odd=\\z", {"odd": "z"}),
        ("last=1\nlast=2", {"last": "2"}),
        ("crlf=1\r\nnext=2\r", {"crlf": "1", "next": "2"}),
        ("\ufefffirst=1\nnext=2", {"first": "1", "next": "2"}),
        ("\ufeff# comment\nnext=2", {"next": "2"}),
        ("ends=here\\", {"ends": "here"}),
        ("even=\\\\\nnext=1", {"even": "\\", "next": "1"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
    ],
)
def test_each_rule_of_the_format(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a=\\u12", "Line 1"),
        ("# one\n\nlog.dirs=\\\n  /a,\\\n  C:\\users\nb=1", "Line 3, property log.dirs"),
        ("x=1\r\nn\\u00zzme=2", "Line 2"),
    ],
)
def test_where_an_escape_is_cut_short_is_said_without_the_value(text: str, place: str) -> None:
    with pytest.raises(KafkaError) as refused:
        parse_properties(text)
    assert refused.value.message == (
        f"{place}: a \\u is not followed by four hexadecimal digits, as in a Unicode escape; a"
        " backslash itself is written twice."
    )


@given(st.text())
def test_no_text_makes_the_parser_fail_otherwise(text: str) -> None:
    try:
        parsed = parse_properties(text)
    except KafkaError:
        return
    assert all(isinstance(value, str) for value in parsed.values())


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)


_BASIC = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]))


@given(st.dictionaries(_BASIC.filter(bool), _BASIC))
def test_what_is_written_with_escapes_is_read_back(properties: dict[str, str]) -> None:
    text = "\n".join(f"{_escaped(name)}={_escaped(value)}" for name, value in properties.items())
    assert parse_properties(text) == properties
