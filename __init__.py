"""tierlog: a Kafka-wire-compatible broker with tiered storage built in."""

__version__ = "0.1.0"
