"""What a test is warned of whose broker has given up. In a module of its own: pytest looks the
class up for `filterwarnings`, and a plugin that is imported before it is loaded gets a warning."""

import pytest


class BrokerWarning(pytest.PytestWarning):
    """The broker of the session has given up in a test, and runs again."""
