"""A secret shows itself to nobody who does not ask for it by name."""

import pickle
import re
import traceback

import pytest

from tierlog.clients.sasl.secret import Secret


def test_only_reveal_shows_the_value() -> None:
    secret = Secret("hidden-value")
    assert secret.reveal() == "hidden-value"
    assert {f"{secret}", f"{secret!r}", str(secret), "%s" % secret} == {"********"}  # noqa: UP031 - the old way too
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_a_traceback_with_its_variables_shows_stars() -> None:
    def fails(passed: Secret) -> None:
        raise ValueError(passed)

    secret = Secret("hidden-" + "value")
    with pytest.raises(ValueError, match=re.escape("********")) as failure:
        fails(secret)
    shown = traceback.TracebackException.from_exception(failure.value, capture_locals=True)
    assert "hidden-value" not in "".join(shown.format())


def test_secrets_are_equal_by_value() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
    assert Secret("ä").equals("ä")
    assert not Secret("").equals("a")
