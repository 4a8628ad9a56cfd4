"""The purgatory: each operation completes exactly once and is then forgotten."""

from hypothesis import given, strategies as st

from tierlog.replication.purgatory.purgatory import DelayedOperation, Purgatory
from tierlog.tests.replication.manual_loop import ManualLoop


class Waiting(DelayedOperation):
    """Completes once it is allowed to, and counts what happens to it."""

    def __init__(self, delay_ms: float = 100) -> None:
        super().__init__(delay_ms)
        self.is_ready = False
        self.completions = 0
        self.expirations = 0
        self.tries = 0

    def try_complete(self) -> bool:
        self.tries += 1
        return self.is_ready and self.force_complete()

    def on_complete(self) -> None:
        self.completions += 1

    def on_expiration(self) -> None:
        self.expirations += 1


def test_an_operation_that_is_ready_does_not_wait() -> None:
    purgatory: Purgatory[Waiting] = Purgatory("test", ManualLoop())
    operation = Waiting()
    operation.is_ready = True
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.completions == 1
    assert len(purgatory) == 0
    assert not purgatory.is_watched("a")


def test_any_of_its_keys_completes_an_operation_and_it_leaves_all_of_them() -> None:
    purgatory: Purgatory[Waiting] = Purgatory("test", ManualLoop())
    operation = Waiting()
    assert not purgatory.try_complete_else_watch(operation, ["a", "b", "a"])
    assert purgatory.check_and_complete("b") == 0
    operation.is_ready = True
    assert purgatory.check_and_complete("c") == 0
    assert purgatory.check_and_complete("b") == 1
    assert operation.completions == 1
    assert not purgatory.is_watched("a")
    assert purgatory.check_and_complete("a") == 0
    assert len(purgatory) == 0


def test_time_completes_an_operation_that_nothing_else_does() -> None:
    loop = ManualLoop()
    purgatory: Purgatory[Waiting] = Purgatory("test", loop)
    operation = Waiting(50)
    purgatory.try_complete_else_watch(operation, ["a"])
    loop.advance(49)
    assert operation.completions == 0
    loop.advance(2)
    assert (operation.completions, operation.expirations) == (1, 1)
    assert purgatory.expired_total == 1
    assert not purgatory.is_watched("a")
    assert not operation.force_complete()


def test_completion_may_start_another_wait_for_the_same_key() -> None:
    purgatory: Purgatory[Waiting] = Purgatory("test", ManualLoop())
    second = Waiting()

    class First(Waiting):
        def on_complete(self) -> None:
            super().on_complete()
            purgatory.try_complete_else_watch(second, ["a"])

    first = First()
    purgatory.try_complete_else_watch(first, ["a"])
    first.is_ready = True
    assert purgatory.check_and_complete("a") == 1
    assert second.completions == 0
    assert len(purgatory) == 1


def test_one_more_than_the_limit_expires_on_arrival() -> None:
    purgatory: Purgatory[Waiting] = Purgatory("test", ManualLoop(), operations_max=2)
    kept = [Waiting(), Waiting()]
    for operation in kept:
        assert not purgatory.try_complete_else_watch(operation, ["a"])
    refused = Waiting()
    assert purgatory.try_complete_else_watch(refused, ["a"])
    assert (refused.completions, refused.expirations) == (1, 1)
    assert [operation.completions for operation in kept] == [0, 0]


def test_without_time_to_wait_an_operation_expires_at_once() -> None:
    purgatory: Purgatory[Waiting] = Purgatory("test", ManualLoop())
    operation = Waiting(0)
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.expirations == 1


def test_stopping_expires_everything_and_leaves_no_timer() -> None:
    loop = ManualLoop()
    purgatory: Purgatory[Waiting] = Purgatory("test", loop)
    operations = [Waiting() for _ in range(5)]
    for index, operation in enumerate(operations):
        purgatory.try_complete_else_watch(operation, [index, "all"])
    purgatory.shutdown()
    assert all(operation.expirations == 1 for operation in operations)
    assert not loop.pending


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "ready", "check", "force", "advance"]), st.integers(0, 5)
        ),
        max_size=60,
    )
)
def test_whatever_happens_each_operation_completes_at_most_once(
    steps: list[tuple[str, int]],
) -> None:
    loop = ManualLoop()
    purgatory: Purgatory[Waiting] = Purgatory("test", loop, operations_max=6)
    operations: list[Waiting] = []
    for step, number in steps:
        if step == "add":
            operation = Waiting(number * 10)
            operations.append(operation)
            purgatory.try_complete_else_watch(operation, [number, (number + 1) % 6])
        elif step == "ready" and operations:
            operations[number % len(operations)].is_ready = True
        elif step == "check":
            purgatory.check_and_complete(number)
        elif step == "force" and operations:
            operations[number % len(operations)].force_complete()
        elif step == "advance":
            loop.advance(number * 5)
        waiting = [operation for operation in operations if not operation.is_completed]
        assert len(purgatory) == len(waiting) <= 6
    loop.advance(1_000)
    assert all(operation.completions == 1 for operation in operations)
    assert len(purgatory) == 0
