"""Sockets that a foreign client forgets to close.

Python warns of them when they are collected, and whichever test runs then would pay for it.
"""

import gc
import warnings

ON_LOOPBACK = r"unclosed <(socket\.socket|ssl\.SSLSocket) .*laddr=\('127\.0\.0\.1'"


def collect_forgotten_sockets(warning: str = ON_LOOPBACK) -> None:
    """Collect them now, without this warning, once the client that forgets them has gone."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", warning, ResourceWarning)
        gc.collect()
