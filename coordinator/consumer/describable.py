"""Which topics a client may describe, as a question to the authorizer."""

from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

Describable: TypeAlias = Callable[[Iterable[str]], Collection[str]]
"""Those of the names that the client may describe now."""
