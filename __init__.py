"""tierlog: a Kafka-wire-compatible broker with tiered storage built in.

    import tierlog

    with tierlog.Broker() as broker:
        ...  # broker.bootstrap_servers

`Broker` is that of `tierlog.testing`, loaded when it is first used; import it from there where
types are checked.
"""

TYPE_CHECKING = False
"""As in `typing`, which a plain import does not load."""

if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> "Any":  # noqa: ANN401 (a module has names of any type)
    """Load a public name. Raises AttributeError for what has none."""
    if name != "Broker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    # By its name: every module may import this one, and none of them the broker through it.
    return import_module(".testing", __name__).Broker
