"""A stage's expressions as a graph: which nodes are used more than once, and how deep they are nested."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from autosched.lang.expr import Binary, Call, Cast, Expr, Unary, children

DEEPEST_NESTING = 24
"""Values nested more deeply than this are bound to names on the way."""


@dataclass(frozen=True, slots=True)
class ExpressionGraph:
    """Facts about the expressions of one stage, by ``id``.

    Attributes:
        repeated: Expressions that are operands more than once; written out each time, they would grow fast.
        depth: Longest way from an expression to one without operands.
    """

    repeated: frozenset[int]
    depth: dict[int, int]

    def deserves_name(self, e: Expr) -> bool:
        """Whether the value of an expression is better bound to a name than written where it is used."""
        return id(e) in self.repeated or self.depth[id(e)] % DEEPEST_NESTING == DEEPEST_NESTING - 1

    def arithmetic(self, e: Expr, known: Container[int]) -> list[Expr]:
        """Return the most deeply nested operand of an expression, that one's, and so on, as far as it matters.

        The list ends with the arithmetic, at operands in ``known``, and where only shallow ones are left.
        """
        found: list[Expr] = []
        while self.depth[id(e)] > DEEPEST_NESTING:
            e = max(children(e), key=lambda o: self.depth[id(o)])
            if id(e) in known or e.weak or not isinstance(e, Binary | Unary | Cast | Call):
                break
            found.append(e)
        return found


def expression_graph(roots: Iterable[Expr]) -> ExpressionGraph:
    """Return the graph below some expressions; no recursion, as sums may have thousands of terms."""
    uses: dict[int, int] = {}
    depth: dict[int, int] = {}
    stack = list(roots)
    while stack:
        e = stack[-1]
        if id(e) in depth:
            stack.pop()
            continue
        operands = children(e)
        pending = [o for o in operands if id(o) not in depth]
        if pending:
            stack.extend(pending)
            continue
        stack.pop()
        depth[id(e)] = 1 + max((depth[id(o)] for o in operands), default=-1)
        for o in operands:
            uses[id(o)] = uses.get(id(o), 0) + 1
    return ExpressionGraph(frozenset(e for e, times in uses.items() if times > 1), depth)
