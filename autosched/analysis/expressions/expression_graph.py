"""Repeated uses and nesting depth of a stage's expressions."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from autosched.lang.expr import Binary, Call, Cast, Expr, Unary, children

DEEPEST_NESTING = 24
"""Nesting depth of values beyond which subexpressions get names."""


@dataclass(frozen=True, slots=True)
class ExpressionGraph:
    """Facts about the expressions of one stage, by ``id``.

    Attributes:
        repeated: Expressions that are operands more than once; substituted, they would grow exponentially.
        depth: Longest path from an expression to a leaf.
    """

    repeated: frozenset[int]
    depth: dict[int, int]

    def deserves_name(self, e: Expr) -> bool:
        """Whether the value of an expression should be bound to a name rather than substituted."""
        return id(e) in self.repeated or self.depth[id(e)] % DEEPEST_NESTING == DEEPEST_NESTING - 1

    def arithmetic(self, e: Expr, named: Container[int]) -> list[Expr]:
        """Return the chain of the most deeply nested operands below an expression.

        It ends where the arithmetic ends, at operands in ``named``, and where nesting is shallow.
        """
        chain: list[Expr] = []
        while self.depth[id(e)] > DEEPEST_NESTING:
            e = max(children(e), key=lambda o: self.depth[id(o)])
            if id(e) in named or e.weak or not isinstance(e, Binary | Unary | Cast | Call):
                break
            chain.append(e)
        return chain


def expression_graph(roots: Iterable[Expr]) -> ExpressionGraph:
    """Return the graph of some expressions; without recursion, since sums may have thousands of terms."""
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
