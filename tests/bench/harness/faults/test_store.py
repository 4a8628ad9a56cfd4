"""A store in trouble: what it does to requests, and what it has in the end."""

import http.client
from collections.abc import Generator

import pytest

from tierlog.bench.harness.faults.fault import StoreTrouble
from tierlog.bench.harness.faults.store import TroubledStore

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Generator[TroubledStore]:
    with TroubledStore(tmp_path_factory.mktemp("store")) as one:
        yield one


def ask(store: TroubledStore, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """The status and the body; status 0 if there is no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", store.proxy.port, timeout=60)
    try:
        connection.request(method, path, body=body or None)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except OSError:
        return 0, b""
    finally:
        connection.close()


def put(store: TroubledStore, name: str, times: int) -> list[int]:
    return [ask(store, "PUT", f"/tier/{name}{each}", b"content")[0] for each in range(times)]


def objects(store: TroubledStore, name: str) -> int:
    status, listed = ask(store, "GET", f"/tier?list-type=2&prefix={name}")
    assert status == 200
    return listed.count(b"<Key>")


def test_a_store_that_is_down_accepts_nothing_until_it_is_up(store: TroubledStore) -> None:
    store.behave(StoreTrouble.DOWN)
    assert put(store, "down", 3) == [0, 0, 0]
    store.behave(StoreTrouble.DOWN)
    store.behave(StoreTrouble.NONE)
    assert put(store, "up", 3) == [200, 200, 200]
    assert objects(store, "down") == 0
    assert objects(store, "up") == 3


def test_what_is_answered_with_an_error_is_not_done(store: TroubledStore) -> None:
    store.behave(StoreTrouble.ERRORS)
    answers = put(store, "errors", 20)
    store.behave(StoreTrouble.NONE)
    assert set(answers) == {200, 500, 503}
    assert objects(store, "errors") == answers.count(200)


def test_what_is_not_answered_is_done_all_the_same(store: TroubledStore) -> None:
    store.behave(StoreTrouble.LOST_ANSWERS)
    answers = put(store, "lost", 20)
    store.behave(StoreTrouble.NONE)
    assert set(answers) == {0, 200}
    assert objects(store, "lost") == 20


def test_a_slow_store_answers(store: TroubledStore) -> None:
    store.behave(StoreTrouble.SLOW)
    assert store.proxy.link.latency_ms > 1000
    assert put(store, "slow", 1) == [200]
    store.behave(StoreTrouble.NONE)
    assert store.proxy.link.latency_ms == 0
