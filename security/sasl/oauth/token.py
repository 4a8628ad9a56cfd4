"""What a bearer token comes to: a subject and a time of expiry, or a refusal."""

from collections.abc import Callable
from typing import NamedTuple


class ValidToken(NamedTuple):
    """What the broker needs of a token that it accepts."""

    subject: str
    """The principal is ``User:<subject>``."""
    expires_at_ms: float
    """When it expires, in milliseconds of the wall clock."""


class TokenRefused(Exception):
    """A token is not accepted. `cause` is for the broker's log, and holds nothing of the token."""

    def __init__(self, cause: str, required_scope: str | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.required_scope = required_scope
        """The scope that the token lacks; None if that is not the reason."""


ValidateToken = Callable[[str], ValidToken]
"""Decides about a token. Raises TokenRefused."""
