"""The machine's toolchains are read rightly, and what is missing is said."""

import pytest

from tierlog.tests import toolchain


@pytest.mark.parametrize(
    ("printed", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", 0),
    ],
)
def test_javas_version_is_read_in_both_numberings(printed: str, major: int) -> None:
    assert toolchain.java_major_version(printed) == major


def test_an_unknown_toolchain_is_a_mistake_in_the_test() -> None:
    with pytest.raises(KeyError):
        toolchain.missing(("cobol",))


def test_the_report_names_each_missing_toolchain_and_what_did_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chains = {
        "java": toolchain.Toolchain("java", "Java 17+", lambda: False),
        "go": toolchain.Toolchain("go", "Go", lambda: False),
        "node": toolchain.Toolchain("node", "Node", lambda: True),
    }
    monkeypatch.setattr(toolchain, "TOOLCHAINS", chains)
    assert toolchain.report({"Java 17+": 3}) == [
        "toolchains found: Node",
        "toolchain missing: Java 17+: 3 test(s) did not run",
        "toolchain missing: Go: no test of this run needs it",
    ]
