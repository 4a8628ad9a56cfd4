"""Reads the metrics of a tierlog broker from its Prometheus endpoint (docs/metrics.md)."""

import http.client
import re

_SERIES = re.compile(r"^([^#\s].*) (\S+)$", re.MULTILINE)


def read_metrics(port: int) -> dict[str, float]:
    """The value of every series, by its name and labels as written."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    return {name: float(value) for name, value in _SERIES.findall(text)}
