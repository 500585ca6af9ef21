"""Arithmetic of one evaluation of a stage by execution unit, and the Strahler number of its expression tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.featurize.accesses.accesses import StageAccesses
from autosched.featurize.accesses.select_loads import loads_only_at_boundary
from autosched.featurize.instructions.float_instructions import float_instructions
from autosched.featurize.instructions.integer_instructions import integer_instructions
from autosched.featurize.regions.stage_interior import interior
from autosched.lang.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, children

FLOAT, DOUBLE, INTEGER, SPECIAL = range(4)
"""Units: single precision, double precision, integers and comparisons, divisions and elementary functions."""
UNITS = 4

_CALL_WEIGHT = {"floor": 1, "ceil": 1, "trunc": 1, "round": 1, "hash_u32": 8}
_SPECIAL_WEIGHT = 4
"""Instructions of a division or an elementary function, those of the special function unit included."""
_LOAD_STATEMENTS, _POINT_STATEMENTS, _DATA_INDEX_STATEMENTS = 2, 2, 5
"""Statements of generated code: value and name of each load; index and store of each point; conversion and clamp of an
index that depends on data."""


def code_size(operations: Sequence[float], reached: StageAccesses) -> int:
    """Return the operations of the code of one point: arithmetic, loads, and one index per group of loads.

    Args:
        operations: Counts of `WorkTable.operations`.
        reached: Accesses of one evaluation.
    """
    *usual, special = (int(n) for n in operations)
    loads = sum(len(group.offsets) for group in reached.loads)
    by_data = sum(group.by_data for group in (*reached.loads, *reached.stores))
    arithmetic = sum(usual) + special // _SPECIAL_WEIGHT + _DATA_INDEX_STATEMENTS * by_data
    return arithmetic + len(reached.loads) + _LOAD_STATEMENTS * loads + _POINT_STATEMENTS


@dataclass
class WorkTable:
    """Cache of the operations and branching of a pipeline's stages."""

    bound: BoundPipeline
    _operations: dict[tuple[str, int], tuple[float, ...]] = field(default_factory=dict)
    _branching: dict[tuple[str, int, frozenset[str]], int] = field(default_factory=dict)
    _floats: dict[tuple[str, int], int] = field(default_factory=dict)
    _integers: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    def operations(self, stage: BoundStage, calls: Mapping[str, int]) -> tuple[float, ...]:
        """Return operations by unit of one evaluation, inlined Funcs included (``calls`` times each)."""
        total = list(self._stage_operations(stage))
        for name, times in calls.items():
            for k, n in enumerate(self._stage_operations(self.bound.funcs[name].stages[0])):
                total[k] += times * n
        return tuple(total)

    def integer_instructions(self, stage: BoundStage, calls: Mapping[str, int]) -> tuple[int, int]:
        """Return a GPU's integer instructions of one evaluation, without those of indices.

        Comparisons, selects, conversions and parts of floating-point functions count. A product and the sum that reads
        it are one instruction. Conversions between integers of up to 32 bits are free.

        Returns:
            Instructions of all code, and of boundary code only.
        """
        total, boundary = self._stage_integers(stage)
        for name, times in calls.items():
            everywhere, at_boundary = self._stage_integers(self.bound.funcs[name].stages[0])
            total, boundary = total + times * everywhere, boundary + times * at_boundary
        return total, boundary

    def float_instructions(self, stage: BoundStage, calls: Mapping[str, int]) -> int:
        """Return the single-precision instructions of one evaluation; a multiply-add is one instruction."""
        total = self._stage_floats(stage)
        for name, times in calls.items():
            total += times * self._stage_floats(self.bound.funcs[name].stages[0])
        return total

    def _stage_floats(self, stage: BoundStage) -> int:
        key = stage.func, stage.number
        if key not in self._floats:
            self._floats[key] = sum(float_instructions(e) for e in _nodes(stage))
        return self._floats[key]

    def _stage_integers(self, stage: BoundStage) -> tuple[int, int]:
        key = stage.func, stage.number
        if key not in self._integers:
            boundary = loads_only_at_boundary(stage, interior(self.bound, stage))
            nodes = [(integer_instructions(e), id(e) in boundary) for e in _nodes(stage)]
            self._integers[key] = sum(n for n, b in nodes if not b), sum(n for n, b in nodes if b)
        return self._integers[key]

    def _stage_operations(self, stage: BoundStage) -> tuple[float, ...]:
        key = stage.func, stage.number
        if key not in self._operations:
            counts = [0.0] * UNITS
            for e in _nodes(stage):
                unit, weight = operation_cost(e)
                counts[unit] += weight
            self._operations[key] = tuple(counts)
        return self._operations[key]

    def branching(self, stage: BoundStage, inlined: frozenset[str]) -> int:
        """Return the Strahler number of a stage's expressions: registers to evaluate it without shared values."""
        cache = self._branching
        stack = [stage]
        while stack:
            s = stack[-1]
            below = (n for n in s.sources if n in inlined and (n, 0, inlined) not in cache)
            pending = [self.bound.funcs[n].stages[0] for n in below]
            if pending:
                stack += pending
                continue
            stack.pop()
            if (s.func, s.number, inlined) not in cache:
                numbers = (self._strahler(v, s, inlined) for v in s.values)
                cache[s.func, s.number, inlined] = max(numbers, default=1)
        return cache[stage.func, stage.number, inlined]

    def _strahler(self, root: Expr, stage: BoundStage, inlined: frozenset[str]) -> int:
        done: dict[int, int] = {}
        stack = [root]
        while stack:
            e = stack[-1]
            if id(e) in done:
                stack.pop()
                continue
            if isinstance(e, Load):
                source = stage.names[id(e.source)]
                done[id(e)] = self._branching[source, 0, inlined] if source in inlined else 1
                continue
            below = children(e)
            pending = [c for c in below if id(c) not in done]
            if pending:
                stack.extend(pending)
                continue
            done[id(e)] = _strahler_number([done[id(c)] for c in below])
        return done[id(root)]


def _nodes(stage: BoundStage) -> list[Expr]:
    """Return the distinct nodes of a stage's expressions, without those of indices."""
    nodes: dict[int, Expr] = {}
    stack: list[Expr] = list(stage.values)
    while stack:
        e = stack.pop()
        if id(e) in nodes or (e.weak and e.dtype.kind == "i"):
            continue
        nodes[id(e)] = e
        if not isinstance(e, Load):
            stack.extend(children(e))
    return list(nodes.values())


def _strahler_number(numbers: list[int]) -> int:
    """Return the Strahler number of a node from those of its operands."""
    if not numbers:
        return 1
    total = numbers[0]
    for n in numbers[1:]:
        total = total + 1 if n == total else max(n, total)
    return total


def operation_cost(e: Expr) -> tuple[int, float]:
    """Return the unit that evaluates a node, and its operations, operands not included."""
    if isinstance(e, Const | Load):
        return INTEGER, 0
    widest = max((c.dtype for c in (e, *children(e)) if c.dtype.is_float), key=lambda d: d.bits, default=None)
    plain = INTEGER if widest is None else DOUBLE if widest.bits == 64 else FLOAT
    match e:
        case Call():
            weight = _CALL_WEIGHT.get(e.name)
            if weight is not None:
                return plain, weight
            return (plain, 5 * _SPECIAL_WEIGHT) if plain == DOUBLE else (SPECIAL, _SPECIAL_WEIGHT)
        case Binary() if e.op in ("truediv", "floordiv", "mod"):
            if isinstance(e.b, Const):
                return plain, 4
            return (plain, 5 * _SPECIAL_WEIGHT) if plain == DOUBLE else (SPECIAL, _SPECIAL_WEIGHT)
        case Binary() | Unary() | Select() | Cast():
            return plain, 1
        case _:
            return INTEGER, 0
