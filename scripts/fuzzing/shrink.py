"""Reduction of a failing program under the condition that it fails in the same way."""

from __future__ import annotations

import ast
import copy
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from fuzzing.program import VALUES, Program

_SOURCE = re.compile(r"[fkt]\d+")
Fails = Callable[[Program], bool]
SECONDS = 120.0
PROBES = 300


@dataclass
class Budget:
    """Limits of shrinking: number of probes, and time."""

    probes: int = PROBES
    seconds: float = SECONDS

    def __post_init__(self) -> None:
        self._ends = time.monotonic() + self.seconds

    def take(self) -> bool:
        """Consume one probe; return whether it is within the limits."""
        self.probes -= 1
        return self.probes >= 0 and time.monotonic() < self._ends


def shrink(program: Program, fails: Fails, budget: Budget | None = None) -> Program:
    """Return a small program that still fails.

    Args:
        program: A program that fails.
        fails: Predicate whether a program fails in the same way; candidates may be invalid.
        budget: Limits of probes and time.
    """
    left = budget or Budget()
    shrunk = True
    while shrunk:
        shrunk = False
        for candidates in CANDIDATES:
            better = _descend(program, candidates, fails, left)
            shrunk |= better is not program
            program = better
    return program


def _descend(
    program: Program, candidates: Callable[[Program], Iterator[Program]], fails: Fails, budget: Budget
) -> Program:
    """Replace the program by its first failing candidate until none fails."""
    position = 0
    while True:
        for k, candidate in enumerate(candidates(program)):
            if k < position:  # already refused, in a program that differs elsewhere
                continue
            if not budget.take():
                return program
            if fails(candidate):
                program, position = candidate, k
                break
        else:
            return program


def without_statements(program: Program) -> Iterator[Program]:
    """Yield the program without one statement, from the last to the first."""
    body = ast.parse(program.text).body
    for k in reversed(range(len(body))):
        if not _defines(body[k], "pipeline", "shapes", "params"):
            yield _with_body(program, body[:k] + body[k + 1 :])


def without_outputs(program: Program) -> Iterator[Program]:
    """Yield the program with one output fewer."""
    tree = ast.parse(program.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.List) and len(node.elts) > 1:
            for k in range(len(node.elts)):
                yield _edited(program, tree, node, ast.List(node.elts[:k] + node.elts[k + 1 :], ast.Load()))


def simpler_expressions(program: Program) -> Iterator[Program]:
    """Yield the program with one expression replaced by a part of it."""
    tree = ast.parse(program.text)
    for node in _values(tree):
        for part in _parts(node):
            yield _edited(program, tree, node, part)


def smaller_numbers(program: Program) -> Iterator[Program]:
    """Yield the program with one number closer to zero."""
    tree = ast.parse(program.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 0:
            for value in sorted({0, 1, node.value // 2, node.value - 1} - {node.value}):
                yield _edited(program, tree, node, ast.Constant(value))


def earlier_sources(program: Program) -> Iterator[Program]:
    """Yield the program with one read or output of a Func replaced by that of an earlier Func."""
    tree = ast.parse(program.text)
    made = [t.id for s in tree.body if isinstance(s, ast.Assign) for t in s.targets if isinstance(t, ast.Name)]
    sources = [name for name in made if _SOURCE.fullmatch(name)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in sources:
            for name in sources[: sources.index(node.id)]:
                yield _edited(program, tree, node, ast.Name(name, ast.Load()))


def simpler_values(program: Program) -> Iterator[Program]:
    """Yield the program with input values of a simpler kind."""
    simplest = ("usual", "zeros")
    for values in VALUES:
        if values in simplest and program.values not in simplest:
            yield replace(program, values=values)


CANDIDATES = (
    without_statements, without_outputs, earlier_sources, simpler_expressions, smaller_numbers, simpler_values,
)  # fmt: skip
"""Reductions of a program, by effect."""


def _values(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the expressions of values and indices, outermost first."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AugAssign) and not _defines(
            statement, "pipeline", "shapes", "params"
        ):
            roots = [statement.value, *(t.slice for t in _targets(statement) if isinstance(t, ast.Subscript))]
            for root in roots:
                yield from (n for n in ast.walk(root) if isinstance(n, ast.expr))


def _parts(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.BinOp(left, _, right):
            return [left, right]
        case ast.UnaryOp(_, operand):
            return [operand]
        case ast.Call(ast.Attribute(ast.Name("au"), name), arguments) if name not in ("cast", "undef"):
            return [*arguments]
        case ast.Call(ast.Attribute(ast.Name("au"), "cast"), [_, value]):
            return [value]
        case _:
            return []


def _targets(statement: ast.Assign | ast.AugAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _defines(statement: ast.stmt, *names: str) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(t, ast.Name) and t.id in names for t in statement.targets
    )


def _edited(program: Program, tree: ast.Module, node: ast.AST, by: ast.AST) -> Program:
    """Return the program with one node of its tree replaced."""
    position = next(k for k, n in enumerate(ast.walk(tree)) if n is node)
    edited = copy.deepcopy(tree)
    old = next(n for k, n in enumerate(ast.walk(edited)) if k == position)
    return replace(
        program, text=ast.unparse(ast.fix_missing_locations(_Replace(old, copy.deepcopy(by)).visit(edited))) + "\n"
    )


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else super().visit(node)


def _with_body(program: Program, body: list[ast.stmt]) -> Program:
    return replace(program, text=ast.unparse(ast.Module(body, [])) + "\n")
