"""Metrics in the text format of Prometheus (exposition format 0.0.4).

The names are those that Prometheus's JMX exporter, without rules, makes of Kafka's MBeans, so that
dashboards and alerts for Kafka work here: domain, value of the first property and attribute are
joined by ``_``, characters that are not allowed in names become ``_``, and the other properties are
labels.

    kafka.server:type=BrokerTopicMetrics,name=RemoteCopyBytesPerSec,topic=orders   Count
    kafka_server_BrokerTopicMetrics_Count{name="RemoteCopyBytesPerSec",topic="orders"}

HELP has the domain, the first property and the attribute, as in JMX.
"""

import re
from collections.abc import Generator, Iterable
from math import isinf, isnan

from ...clients.runtime.steps import finished, sorted_steps
from .metrics import COUNT, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SERIES_A_STEP = 16
_SERIES_A_PIECE = 256

_NOT_IN_NAMES = re.compile("[^a-zA-Z0-9:]+")


def exposition(samples: Iterable[Sample]) -> str:
    """The text; series with the same name are adjacent, as the format requires."""
    return finished(exposition_steps(samples)).decode()


def exposition_steps(samples: Iterable[Sample]) -> Generator[None, None, bytes]:
    """The text in UTF-8, in steps."""
    families: dict[str, list[str]] = {}
    heads: dict[str, str] = {}
    for number, sample in enumerate(samples, 1):
        domain, _, properties = sample.name.partition(":")
        first, *others = properties.split(",")
        name = _plain(f"{domain}_{first.partition('=')[2]}_{sample.attribute}")
        if name not in heads:
            kind = "counter" if sample.attribute == COUNT else "gauge"
            help_text = f"{domain}:{first} attribute {sample.attribute}"
            heads[name] = f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n"
        series = f"{name}{_labels(others)} {_number(sample.value)}\n"
        families.setdefault(name, []).append(series)
        if not number % _SERIES_A_STEP:
            yield
    pieces: list[bytes] = []
    for name in sorted(families):
        pieces.append(heads[name].encode())
        in_order = yield from sorted_steps(families.pop(name))
        for begin in range(0, len(in_order), _SERIES_A_PIECE):
            pieces.append("".join(in_order[begin : begin + _SERIES_A_PIECE]).encode())
            yield
    return b"".join(pieces)


def _plain(name: str) -> str:
    """A valid Prometheus name, without two ``_`` in a row, as in the exporter."""
    return _NOT_IN_NAMES.sub("_", name)


def _labels(properties: list[str]) -> str:
    pairs = [each.partition("=") for each in properties]
    written = ",".join(f'{_plain(key)}="{_escape(value)}"' for key, _, value in pairs)
    return f"{{{written}}}" if written else ""


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)
