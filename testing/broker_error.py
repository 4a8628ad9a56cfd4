"""What the acts of a test's broker raise."""


class BrokerError(Exception):
    """A broker did not start, or an act on it was refused; the text is one sentence."""


class OnlyTierlogError(BrokerError):
    """The act needs a broker that the test itself has started, and another one is tested against.

    The pytest plugin skips the test, with this text as the reason.
    """
