"""Loads all that a broker in this process may load later, where modules do not stay.

pyfakefs drops from `sys.modules` what was imported while its file system stood, by whichever
thread. A broker loads the module of a request with the first one: dropped and loaded again, there
are two classes of one name, and the one that was kept is no instance of the other.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

_PACKAGE = __name__.removesuffix(".testing.whole_broker")
_PARTS = ("broker", "clients", "coordinator", "replication", "security", "storage", "tiering")

_DROPS_MODULES = "pyfakefs"


def load_if_modules_are_dropped() -> None:
    """Load a whole broker if pyfakefs is in use; it takes half a second of the processor once."""
    if _DROPS_MODULES in sys.modules:
        for name in _modules():
            _load(name)


def _modules() -> Iterator[str]:
    for part in _PARTS:
        yield from _modules_of(part)


def _modules_of(package: str) -> Iterator[str]:
    module = import_module(f"{_PACKAGE}.{package}")
    for child in iter_modules(module.__path__):
        name = f"{package}.{child.name}"
        if child.ispkg:
            yield from _modules_of(name)
        elif child.name != "__main__":
            yield f"{_PACKAGE}.{name}"


def _load(name: str) -> None:
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        # An extra that is not installed: what needs it is not used here.
        if error.name is None or error.name.startswith(_PACKAGE):
            raise
