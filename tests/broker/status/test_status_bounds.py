"""No client makes an answer of the status API large, nor its collection frequent."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tierlog.bench.harness.requests.admin import create_topic
from tierlog.broker.status import status_api
from tierlog.broker.status.sources import NAME_MAX, Json
from tierlog.broker.status.status_api import encoded

from ...broker_process import BrokerThread
from .committed_groups import commit
from .status_client import StatusClient

LONGEST = "g" * 32_000
"""About the longest name that a request can hold."""


def written(status: Json) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(b"".join(encoded(status))))


@pytest.mark.parametrize(
    "status",
    [
        {"topics": [], "more": 0},
        {"topics": [{"name": "\ud800"}], "more": 3},
        {"name": "t", "configs": {"a": "b"}, "partitions": [1, 2], "more": 0, "loading": 1},
    ],
)
def test_what_is_small_is_written_whole(status: Json) -> None:
    expected = json.loads(json.dumps(status).replace("\\ud800", "?"))
    assert written(status) == expected
    assert list(written(status)) == list(status)


def test_a_list_ends_where_the_answer_is_large_and_says_how_many_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status_api, "BODY_MAX", 1_000)
    topics = [{"name": "x" * 100, "number": number} for number in range(50)]
    answer = written({"topics": topics, "more": 7, "loading": 0})
    listed = answer["topics"]
    assert listed == topics[: len(listed)]
    assert 1_000 < len(json.dumps(listed)) < 1_500
    assert (answer["more"], answer["loading"]) == (50 - len(listed) + 7, 0)
    # A list that cannot be continued is written whole.
    assert written({"brokers": topics, "more_brokers": 0})["brokers"] == topics


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StatusClient]:
    directory: Path = tmp_path_factory.mktemp("bounds")
    with BrokerThread(directory, {"tierlog.status.port": "0"}) as broker:
        create_topic(broker.bootstrap, "orders", partitions=2)
        commit(broker.port, [LONGEST, "b"], "orders", 2)
        assert broker.broker is not None
        yield StatusClient(broker.broker.status_url)


def test_the_end_of_a_long_name_is_cut_off(client: StatusClient) -> None:
    shown = f"{LONGEST[:NAME_MAX]}…"
    assert [each["group"] for each in client.get("groups")["groups"]] == ["b", shown]
    (topic,) = [each for each in client.get("topics")["topics"] if each["name"] == "orders"]
    assert [each["group"] for each in topic["groups"]] == ["b", shown]
    for partition in client.get("topics/orders")["partitions"]:
        assert [each["group"] for each in partition["groups"]] == ["b", shown]


def test_words_that_the_api_does_not_have_do_not_make_another_answer(
    client: StatusClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each of them would be collected, however young the last answer is."""
    monkeypatch.setattr(status_api, "AGE_S", 600)
    first = client.ask("/api/v1/brokers").body
    assert client.ask("/api/v1/brokers?cache=1").body == first
    monkeypatch.setattr(status_api, "brokers_status", None)
    for number in range(5):
        assert client.ask(f"/api/v1/brokers?cache={number}&x=0").body == first
