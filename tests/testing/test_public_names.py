"""`tierlog.testing` has its names before they are loaded."""

import subprocess
import sys

import pytest

from tierlog import testing
from tierlog.tests.house_rules import ROOT


def printed_by(program: str) -> str:
    """What a program prints in a process of its own."""
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT / ".namespace")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_every_name_is_listed_and_there() -> None:
    from tierlog.testing import public_names

    assert testing.__all__ == public_names.__all__
    assert set(testing.__all__) <= set(dir(testing))
    for name in testing.__all__:
        assert getattr(testing, name) is getattr(public_names, name)


def test_the_warning_of_a_broker_that_has_given_up_can_be_filtered() -> None:
    """Not in `__all__`: it needs pytest. pytest looks it up as it starts, and loads no broker."""
    program = (
        "import sys, warnings; from tierlog.testing import BrokerWarning;"
        "print([name for name in sys.modules if name.startswith('tierlog.broker')],"
        " issubclass(BrokerWarning, Warning))"
    )
    assert printed_by(program) == "[] True\n"


def test_another_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Brokr'"):
        testing.Brokr  # noqa: B018 (its look-up is the test)


def test_a_start_of_pytest_loads_no_broker() -> None:
    program = (
        "import sys, tierlog.testing.pytest_plugin;"
        "print([name for name in sys.modules if name.startswith('tierlog.broker')])"
    )
    assert printed_by(program) == "[]\n"
