"""tierlog: a Kafka-wire-compatible broker with tiered storage built in.

    import tierlog

    with tierlog.Broker() as broker:
        ...  # broker.bootstrap_servers

`Broker` is that of `tierlog.testing`, loaded when it is first used.
"""

TYPE_CHECKING = False
"""As in `typing`, which a plain import does not pay for."""

if TYPE_CHECKING:
    from .broker.testing.broker import Broker as Broker

__version__ = "0.1.0"
__all__ = ["Broker", "__version__"]


def __getattr__(name: str) -> object:
    """Load a public name. Raises AttributeError for what has none."""
    if name != "Broker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .broker.testing.broker import Broker

    return Broker
