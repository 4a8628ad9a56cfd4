"""Cycles in a directed graph whose nodes are numbers: its strongly connected components."""

from collections.abc import Iterator, Sequence

Edges = Sequence[Sequence[int]]
"""The successors of each node."""


def cycles(edges: Edges) -> list[list[int]]:
    """The components of more than one node, each sorted; Tarjan's algorithm, without recursion.

    It takes a time that is linear in the number of nodes and edges.
    """
    return _Search(edges).run()


class _Search:
    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        self._number = [-1] * len(edges)
        self._low = [0] * len(edges)
        self._count = 0
        self._stack: list[int] = []
        self._is_on_stack = [False] * len(edges)
        self._cycles: list[list[int]] = []

    def run(self) -> list[list[int]]:
        for node, number in enumerate(self._number):
            if number < 0 and self._number[node] < 0:
                self._walk(node)
        return self._cycles

    def _enter(self, node: int) -> tuple[int, Iterator[int]]:
        self._number[node] = self._low[node] = self._count
        self._count += 1
        self._stack.append(node)
        self._is_on_stack[node] = True
        return node, iter(self._edges[node])

    def _walk(self, root: int) -> None:
        path = [self._enter(root)]
        while path:
            node, successors = path[-1]
            for successor in successors:
                if self._number[successor] < 0:
                    path.append(self._enter(successor))
                    break
                if self._is_on_stack[successor]:
                    self._low[node] = min(self._low[node], self._number[successor])
            else:
                path.pop()
                if path:
                    before = path[-1][0]
                    self._low[before] = min(self._low[before], self._low[node])
                if self._low[node] == self._number[node]:
                    self._leave(node)

    def _leave(self, root: int) -> None:
        component: list[int] = []
        while True:
            node = self._stack.pop()
            self._is_on_stack[node] = False
            component.append(node)
            if node == root:
                break
        if len(component) > 1:
            self._cycles.append(sorted(component))
