"""`pip install tierlog` builds nothing from source, on any system that the pages name."""

import pytest

from tierlog.tests.systems.wheels import PYTHONS, SYSTEMS, ask, requirements_of

pytestmark = [pytest.mark.long, pytest.mark.slow]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_all_that_the_plain_install_and_its_fixtures_need_has_wheels(
    system: str, python: str
) -> None:
    for extra in ("", "testing", "certificates"):
        answer = ask(requirements_of(extra), SYSTEMS[system], python)
        assert answer.is_complete, answer.text
        assert len(answer.packages) >= len(requirements_of(extra))


def test_a_package_without_a_wheel_for_a_system_is_noticed() -> None:
    wanted = "google-re2==1.1.20251105"
    assert ask([wanted], SYSTEMS["Linux, glibc, ARM"], "3.13").is_complete
    answer = ask([wanted], SYSTEMS["Linux, musl, ARM"], "3.13")
    assert not answer.is_complete
    assert "google-re2" in answer.text
