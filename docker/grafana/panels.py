"""What a dashboard of Grafana is made of: panels, queries over metrics of tierlog, their JSON."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_WIDTH = 24
TOPICS = "kafka_server_BrokerTopicMetrics"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_INSTANCE = 'instance=~"$instance"'


class Panel(NamedTuple):
    """A panel: its queries by legend, the unit of Grafana, and what it tells."""

    title: str
    unit: str
    queries: dict[str, str]
    description: str
    is_number: bool = False
    """Whether it shows the newest value alone."""


class Dashboard(NamedTuple):
    """A dashboard, whose variables beside data source and instance are by name."""

    uid: str
    title: str
    description: str
    rows: dict[str, list[Panel]]
    variables: dict[str, str]


def metric(family: str, name: str = "", *matchers: str) -> str:
    """A selector of one metric, for the instances that are looked at."""
    named = (f'name="{name}"',) if name else ()
    return f"{family}{{{','.join((*named, *matchers, _INSTANCE))}}}"


def rate(selector: str, by: str = "instance") -> str:
    """By how much a total grows a second, added up by a label, or over everything."""
    return f"sum by ({by}) (rate({selector}[$__rate_interval]))"


def total(selector: str, by: str = "instance") -> str:
    """A gauge, added up by a label, or over everything."""
    return f"sum by ({by}) ({selector})"


def all_topics(name: str, kind: str = "Value") -> str:
    """The broker's total, which is the line without a topic."""
    return metric(f"{TOPICS}_{kind}", name, 'topic=""')


def each_topic(name: str, kind: str = "Value") -> str:
    """The lines of the topics that are looked at."""
    return metric(f"{TOPICS}_{kind}", name, 'topic=~"$topic"', 'topic!=""')


def number(title: str, unit: str, query: str, description: str) -> Panel:
    """A panel that shows the newest value alone."""
    return Panel(title, unit, {"": query}, description, is_number=True)


def as_json(dashboard: Dashboard) -> str:
    """The dashboard as Grafana imports it."""
    variables = {
        "instance": "label_values(kafka_network_SocketServer_Value, instance)",
        **dashboard.variables,
    }
    content = {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["tierlog"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "links": [
            {
                "type": "dashboards",
                "title": "tierlog",
                "tags": ["tierlog"],
                "asDropdown": False,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "templating": {"list": [_data_source(), *(_variable(*each) for each in variables.items())]},
        "panels": list(_panels(dashboard.rows)),
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _data_source() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _panels(rows: dict[str, list[Panel]]) -> Iterator[dict[str, Any]]:
    number = y = 0
    for title, panels in rows.items():
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "panels": [],
            "gridPos": _place(0, y, _WIDTH, 1),
        }
        y += 1
        x = height = 0
        for panel in panels:
            number += 1
            width, height = (4, 4) if panel.is_number else (12, 8)
            yield _panel(number, panel, _place(x, y, width, height))
            x = (x + width) % _WIDTH
            y += 0 if x else height
        if x:
            y += height


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": "stat" if panel.is_number else "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": _targets(list(panel.queries.items()), is_number=panel.is_number),
    }


def _targets(queries: Sequence[tuple[str, str]], *, is_number: bool) -> list[dict[str, Any]]:
    return [
        {
            "refId": chr(ord("A") + place),
            "datasource": _SOURCE,
            "expr": query,
            "legendFormat": legend,
            "instant": is_number,
        }
        for place, (legend, query) in enumerate(queries)
    ]
