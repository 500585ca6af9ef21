"""Expressions as straight-line lists of NumPy operations, run once per block of points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from autosched.lang.expr import Const, Expr, Load, Param, RVar, ShapeDim, Var
from autosched.lang.func import Func, Input, source_of
from autosched.reference.access import read, read_nearest
from autosched.reference.arithmetic import Operation, operation
from autosched.reference.buffers import LoopKey, ReferenceBuffer, Scope, Value
from autosched.reference.intervals import Interval
from autosched.reference.numbering import Numbering, loop_key


@dataclass(frozen=True, slots=True)
class Bindings:
    """Input shapes and parameter values (NumPy scalars), by name, and ranges of the components of some Funcs."""

    shapes: Mapping[str, tuple[int, ...]]
    params: Mapping[str, Any]
    stored: Mapping[object, tuple[Interval, ...]] = field(default_factory=dict)


class ReferenceProgram:
    """A program for numbered expressions; intermediate values are freed after their last use.

    Args:
        numbering: The numbering of the stage.
        roots: Numbers of the results.
        bindings: Shapes and parameters.
        sources: Buffers of the Funcs and Inputs that the expressions load.
    """

    def __init__(
        self,
        numbering: Numbering,
        roots: Sequence[int],
        bindings: Bindings,
        sources: Mapping[Func | Input, ReferenceBuffer] | None = None,
    ) -> None:
        needed = numbering.reachable(*roots)
        slot = {n: k for k, n in enumerate(needed)}
        self._roots = [slot[n] for n in roots]
        self._initial: list[Value] = [None] * len(needed)
        self._variables: list[tuple[int, LoopKey]] = []
        steps: list[tuple[int, Operation, list[int]]] = []
        constant: set[int] = set()
        for n in needed:
            node, k, operands = numbering.nodes[n], slot[n], [slot[o] for o in numbering.operands[n]]
            if isinstance(node, Var | RVar):
                self._variables.append((k, loop_key(node)))
            elif isinstance(node, Load):
                buffer = (sources or {})[source_of(node)]
                load = read_nearest if n in numbering.guarded else read
                steps.append((k, partial(load, buffer.arrays[node.component], buffer.origin), operands))
            elif not operands:
                self._initial[k] = _leaf(node, bindings)
                constant.add(k)
            elif constant.issuperset(operands):
                self._initial[k] = operation(node)(*(self._initial[o] for o in operands))
                constant.add(k)
            else:
                steps.append((k, operation(node), operands))
        self._steps = _with_last_uses(steps, keep=constant.union(self._roots))

    def run(self, scope: Scope) -> list[Value]:
        """Return the values of the roots for the loop variables in ``scope``."""
        values = self._initial.copy()
        for k, key in self._variables:
            values[k] = scope[key]
        for k, op, operands, dead in self._steps:
            values[k] = op(*[values[o] for o in operands])
            for o in dead:
                values[o] = None
        return [values[k] for k in self._roots]


def _with_last_uses(
    steps: list[tuple[int, Operation, list[int]]], keep: set[int]
) -> list[tuple[int, Operation, list[int], list[int]]]:
    used = set(keep)
    result = []
    for k, op, operands in reversed(steps):
        dead = [o for o in dict.fromkeys(operands) if o not in used]
        used.update(dead)
        result.append((k, op, operands, dead))
    return result[::-1]


def _leaf(node: Expr, bindings: Bindings) -> Value:
    match node:
        case Const():
            return np.int64(node.value) if node.weak and node.dtype.is_int else node.dtype.scalar(node.value)
        case Param():
            return bindings.params[node.name]
        case ShapeDim():
            return np.int64(bindings.shapes[node.input.name][node.axis])
    raise TypeError(f"{type(node).__name__} has no value of its own")


def known_integer(e: Expr, bindings: Bindings) -> int:
    """Return the value of an expression over shapes, parameters and numbers."""
    numbering = Numbering()
    root = numbering.number(e)
    (value,) = ReferenceProgram(numbering, [root], bindings).run({})
    return int(value)
