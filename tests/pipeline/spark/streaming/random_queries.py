"""Queries by chance, in the words that both Spark's SQL and DuckDB's understand.

All are about one view `records` with the columns topic, partition, number (the offset), key,
timestamp, ms (the same in milliseconds) and size; `timestamp_millis` makes a time of milliseconds.
Each query that reads the view several times does it under conditions of its own: what one of them
leaves out may not be missing where another one looks.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple


class Range(NamedTuple):
    """What the records of a topic span."""

    partitions: int
    numbers: int
    first_ms: int
    last_ms: int


class RandomQueries:
    """Makes queries, the same ones for the same chance."""

    def __init__(self, chance: Random, spans: Range) -> None:
        self._chance = chance
        self._spans = spans
        self._forms: tuple[Callable[[], str], ...] = (
            self._figures,
            self._groups,
            self._union,
            self._join,
            self._figures_side_by_side,
            self._named_twice,
            self._first_rows,
            self._nested,
            self._set_of_two,
        )

    def query(self) -> str:
        """The next query."""
        return self._chance.choice(self._forms)()

    def condition(self, depth: int = 2) -> str:
        """Of some records: all, none or part of them."""
        kind = self._chance.randrange(8) if depth else 7
        if kind < 2:
            word = self._chance.choice(("AND", "OR", "OR"))
            return f"({self.condition(depth - 1)} {word} {self.condition(depth - 1)})"
        if kind == 2:
            return f"NOT {self.condition(0)}"
        return self._comparison()

    def _comparison(self) -> str:
        chance, spans = self._chance, self._spans
        partition = chance.randint(0, spans.partitions)
        number, other = sorted(chance.randrange(-5, spans.numbers + 5) for _ in range(2))
        span_ms = spans.last_ms - spans.first_ms + 1
        time = f"timestamp_millis({spans.first_ms + chance.randrange(span_ms)})"
        order = chance.choice(("<", "<=", ">", ">="))
        return chance.choice(
            (
                f"partition = {partition}",
                f"partition <> {partition}",
                f"partition IN ({partition}, 1)",
                f"number {order} {number}",
                f"number = {number}",
                f"number BETWEEN {number} AND {other}",
                f"number % {chance.randint(2, 9)} = 1",
                f"timestamp {order} {time}",
                f"key LIKE 'k{chance.randint(1, 9)}%'",
                f"key = 'k{number}'",
                f"topic = '{chance.choice(('orders', 'orders', 'refunds'))}'",
                "key IS NOT NULL",
            )
        )

    def _rows(self, columns: str = "*") -> str:
        return f"SELECT {columns} FROM records WHERE {self.condition()}"

    def _count(self) -> str:
        return f"({self._rows('count(*)')})"

    def _figures(self) -> str:
        return self._rows("count(*), min(number), max(number), sum(number), sum(ms), sum(size)")

    def _groups(self) -> str:
        return f"{self._rows('partition, count(*), sum(number)')} GROUP BY partition"

    def _union(self) -> str:
        both = f"{self._rows()} UNION ALL {self._rows()}"
        return f"SELECT partition, count(*), sum(number) FROM ({both}) t GROUP BY partition"

    def _join(self) -> str:
        shift = self._chance.randrange(200)
        return (
            f"SELECT count(*), sum(a.number) FROM ({self._rows()}) a JOIN ({self._rows()}) b "
            f"ON a.partition = b.partition AND a.number = b.number + {shift}"
        )

    def _figures_side_by_side(self) -> str:
        return f"SELECT {self._count()}, {self._count()}, (SELECT count(*) FROM records)"

    def _named_twice(self) -> str:
        return (
            f"WITH chosen AS ({self._rows()}) SELECT (SELECT count(*) FROM chosen), "
            f"(SELECT sum(number) FROM chosen WHERE {self.condition()}), {self._count()}"
        )

    def _first_rows(self) -> str:
        most = self._chance.randint(1, 50)
        return f"{self._rows('partition, number, key')} ORDER BY partition, number LIMIT {most}"

    def _nested(self) -> str:
        inner = self._rows("number")
        return f"SELECT count(*), sum(size) FROM records WHERE number IN ({inner})"

    def _set_of_two(self) -> str:
        word = self._chance.choice(("EXCEPT", "INTERSECT"))
        columns = "partition, number"
        both = f"{self._rows(columns)} {word} {self._rows(columns)}"
        return f"SELECT count(*), sum(number), sum(partition) FROM ({both}) t"
