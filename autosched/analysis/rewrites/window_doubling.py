"""Windows by doubling: a reduction over neighbours from shorter windows, each several times the one before.

    f[x] = max(f[x], a[x + r])  over -3 <= r < 4  ->  f_w4[x] = max(a[x], a[x + 1], a[x + 2], a[x + 3])
                                                      f[x] = max(f[x], f_w4[x - 3], f_w4[x])

A window of n elements takes about 4 log4(n) operands at each point in place of n. `window_lengths` chooses the shorter
windows. Those of the last step overlap where that changes nothing (minima, maxima, ``and``, ``or``). Other operators
take as many windows of each length as n holds, the longest first. No element outside of the window has an influence, as
it has where a running sum subtracts elements: a NaN stays in its windows. The result is exact up to the rounding of
floating-point sums, and an ordinary pipeline with more Funcs, made for the schedules that contain the rewrite.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import NamedTuple

from autosched.analysis.access.accumulation import Accumulation
from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.expressions.interval_arithmetic import ValueRange
from autosched.analysis.expressions.truncation import evaluate_truncated, narrowest_type
from autosched.analysis.indices import index as ix
from autosched.analysis.pipeline_rewrites import WindowDoubling
from autosched.analysis.rewrites.rebuild import (
    Replacement,
    fresh_name,
    rebuild_pipeline,
    update_accumulation,
    with_replaced_reads,
)
from autosched.analysis.rewrites.rewrite import apply, build
from autosched.analysis.value_ranges import value_ranges
from autosched.errors import ScheduleError
from autosched.lang.dtypes import DType, int32
from autosched.lang.expr import Binary, Const, Expr, Load, RVar, Var, children
from autosched.lang.func import Definition, Func
from autosched.lang.operators import to_strong_type
from autosched.lang.rdom import substitute

IDEMPOTENT = frozenset({"min", "max", "and", "or"})
"""Operators for which windows may overlap."""
SHORTEST_COMBINED = 4
"""Least elements of a window that is combined from shorter ones."""
RADIX = 4
"""Ratio of the lengths of windows that may overlap. With 2, twice as many Funcs would be stored."""
MOST_OPERANDS = 16
"""Most windows that one step combines into a longer one, if they may not overlap."""
STORE_COST = 3
"""Cost of another Func, in operands of a point: its store, and its elements beyond the edges of blocks."""
LONGEST_WINDOW = 1 << 16
"""Most elements of a window."""


def double_windows(bound: BoundPipeline, windows: Sequence[WindowDoubling]) -> BoundPipeline:
    """Return the pipeline with windows by doubling; the same windows give the same object.

    Args:
        bound: The pipeline. Its own rewrites are replaced.
        windows: The windows, in the order of their application.

    Raises:
        ScheduleError: If a reduction is no window, see `window_error`.
    """
    return reduce(apply, windows, bound.root_pipeline)


def window_error(bound: BoundPipeline, window: WindowDoubling) -> str:
    """Return the reason why a reduction cannot be computed by doubling; empty if it can."""
    func = bound.funcs.get(window.func)
    if func is None or not 0 < window.stage < len(func.stages):
        return f"there is no update {window.stage} of {window.func!r}"
    stage, name = func.stages[window.stage], f"update {window.stage} of {window.func!r}"
    if stage.combine or update_accumulation(bound, window.func, window.stage) is None:
        return f"{name} is not of the form f[p] = f[p] op value in any order"
    if [d.name for d in stage.reductions if d.name == window.loop] != [window.loop]:
        return f"{name} has no loop {window.loop!r}; it has {', '.join(d.name for d in stage.reductions)}"
    if not 2 <= stage.loop(window.loop).extent <= LONGEST_WINDOW:
        return (
            f"loop {window.loop} of {window.func!r} has {stage.loop(window.loop).extent} iterations; a window has "
            f"2 to {LONGEST_WINDOW}"
        )
    if [ix.key(i) for i in stage.store] != [ix.key(_unbounded(d)) for d in func.dims]:
        return f"{name} does not write the point of its loops"
    for loop in stage.reductions:
        if moving_dim(stage, func.dims, loop.name) is None:
            return f"loop {loop.name} of {window.func!r} does not move along a dimension of {window.func!r}"
    return ""


class MovingDim(NamedTuple):
    """Dimension along which the elements of a reduction loop are neighbours.

    Attributes:
        dim: Name of the dimension.
        step: 1 if iteration r reads the element r after the point, -1 if it reads the element r before the point.
    """

    dim: str
    step: int


class WindowTypes:
    """Types of shorter windows: the narrowest ones that hold their values.

    Args:
        operators: Operator of each component.
        elements: Range of the elements of each component.
        dtypes: Type of each component of the whole window.
    """

    def __init__(self, operators: Sequence[str], elements: Sequence[ValueRange], dtypes: Sequence[DType]) -> None:
        self._components = tuple(zip(operators, elements, dtypes, strict=True))
        self._whole = sum(d.bits for d in dtypes)

    def of(self, length: int) -> tuple[DType, ...]:
        """Return the types of windows of a length."""
        return tuple(narrowest_type(_window_range(op, r, length), d) for op, r, d in self._components)

    def ratio(self, length: int) -> float:
        """Return the bits of a window of a length over those of the whole one."""
        return sum(d.bits for d in self.of(length)) / self._whole


def _window_range(op: str, elements: ValueRange, length: int) -> ValueRange:
    """Return the range of a window of integers."""
    match op:
        case "add":
            return ValueRange(elements.lo * length, elements.hi * length)
        case "min" | "max":
            return elements
        case "and" | "or" | "xor" if elements.lo >= 0:
            return ValueRange(0, (1 << int(elements.hi).bit_length()) - 1)
    return ValueRange(-math.inf, math.inf)


def window_lengths(
    length: int, *, overlap: bool, ratio: Callable[[int], float] = lambda length: 1.0
) -> tuple[int, ...]:
    """Return the lengths of the shorter windows from which a window is combined, shortest first; each divides the next.

    Powers of `RADIX` if windows may overlap. If not, each length has the shorter ones that minimise its operands at a
    point, and `STORE_COST` for each length; among equal ones, fewer lengths come first, then shorter ones. Half as
    many bits to read cost a quarter less, and half as many to add and to store as well.

    Args:
        length: Elements of the window, at least 2.
        overlap: Whether the last windows may overlap.
        ratio: Returns the bits of a window of a length over those of the whole one.

    Returns:
        At least one length from 4 elements on; none for shorter windows.
    """
    if length < SHORTEST_COMBINED:
        return ()
    if overlap:
        return tuple(n for n in itertools.accumulate(itertools.repeat(RADIX, 8), operator.mul) if n <= length)
    chains = {1: (0.0, 1, (1,))}  # by length: its operands and stores, and the number of its shorter ones
    for shorter in range(1, length // 2 + 1):
        cost, count, chain = chains.get(shorter, (0.0, 0, ()))
        for factor in range(2, min(MOST_OPERANDS, length // shorter) + 1) if count else ():
            longer = factor * shorter
            stored = factor * _operand_cost(ratio(shorter), ratio(longer)) + STORE_COST * ratio(longer)
            candidate = cost + stored, count + 1, (*chain, longer)
            chains[longer] = min(candidate, chains.get(longer, candidate))
    del chains[1]

    def total(cost: float, chain: tuple[int, ...]) -> float:
        return cost + sum(_operand_cost(ratio(n), 1.0) for n, _ in _covering(length, chain, overlap=False))

    return min((total(c, ch), k, ch) for c, k, ch in chains.values())[2][1:]


def _operand_cost(read: float, added: float) -> float:
    """Return the cost of a window with a part of the bits that is added to a sum with a part of the bits."""
    return (read + added) / 2


def _covering(length: int, lengths: Sequence[int], *, overlap: bool) -> list[tuple[int, int]]:
    """Return windows of some lengths that cover a window: the length of each, and its first element from 0 on."""
    longest = max(lengths)
    if overlap:
        return [(longest, start) for start in (*range(0, length - longest, longest), length - longest)]
    parts, start = [], 0
    for n in sorted(lengths, reverse=True):
        parts += [(n, at) for at in range(start, length - n + 1, n)]
        start += (length - start) // n * n
    return parts


def moving_dim(stage: BoundStage, dims: Sequence[str], loop: str) -> MovingDim | None:
    """Return the dimension along which the elements of a reduction loop are neighbours; None if there is none.

    All loads of an iteration are those of iteration 0 at a point further along that dimension, or further back.
    """
    loads = [(load, name) for load, name in stage.loads if name != stage.func]
    used = set(_names_outside_indices(stage))
    indices = [stage.index_of(i) for load, _ in loads for i in load.indices]
    if loop in used or any(t.kind == "select" for i in indices for t in ix.postorder(i)):
        return None
    read = {name for i in indices for name in ix.loop_vars(i)}
    for dim in dims if loop in read else ():
        if dim in used or dim not in read:
            continue
        for step, shift in ((1, ix.sub), (-1, ix.add)):
            back = {dim: shift(_unbounded(dim), _unbounded(loop))}
            if not any(loop in ix.loop_vars(ix.substitute(i, back)) for i in indices):
                return MovingDim(dim, step)
    return None


def _unbounded(name: str) -> ix.Index:
    return ix.var(name, -ix.UNBOUNDED, ix.UNBOUNDED)


def _names_outside_indices(stage: BoundStage) -> Iterator[str]:
    """Yield the loop variables in the values of a stage that are in no index, or in data that an index depends on."""
    stack, seen = list(stage.values), set[int]()
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        if isinstance(e, Var | RVar):
            yield e.name
        elif isinstance(e, Load):
            stack += [t.payload for i in e.indices for t in ix.postorder(stage.index_of(i)) if t.kind == "data"]
        else:
            stack += children(e)


@build.register
def _build(window: WindowDoubling, bound: BoundPipeline) -> BoundPipeline:
    problem = window_error(bound, window)
    if problem:
        raise ScheduleError(f"{problem}: remove this window, or make a new schedule")
    accumulated = update_accumulation(bound, window.func, window.stage)
    assert accumulated is not None
    old = bound.pipeline.func(window.func)
    new = _WindowedFunc(old, window, accumulated, bound).build({*bound.funcs, *bound.inputs})
    rebuilt = rebuild_pipeline(bound, {old: Replacement(new)}).bound
    return replace(rebuilt, before_windows=bound.root_pipeline, windows=(*bound.windows, window))


class _WindowedFunc:
    """Builds the Funcs of longer and longer windows, and the Func that combines the last ones.

    Args:
        func: The Func.
        window: The window.
        accumulated: Accumulation of its update.
        bound: The pipeline.
    """

    def __init__(self, func: Func, window: WindowDoubling, accumulated: Accumulation, bound: BoundPipeline) -> None:
        self._func, self._number, self._loop = func, window.stage, window.loop
        self._accumulated = accumulated
        self._definition = func.definitions[window.stage]
        stage = bound.funcs[window.func].stages[window.stage]
        loop = stage.loop(window.loop)
        moving = {r.name: moving_dim(stage, func.dims, r.name) for r in self._definition.rvars}
        own, self._others = moving[window.loop], list[tuple[int, Expr]]()
        assert own is not None
        self._axis, self._step = func.dims.index(own.dim), own.step
        self._first, self._length = loop.lo if own.step > 0 else -loop.hi, loop.extent
        for r in (r for r in self._definition.rvars if r.name != self._loop):
            other = moving[r.name]
            assert other is not None
            self._others.append((func.dims.index(other.dim), r if other.step > 0 else 0 - r))
        self._windows: dict[int, Func] = {}
        """The Funcs of windows by length; without one for 1, elements are values of the update."""
        self._overlap = all(op in IDEMPOTENT for op in accumulated.operators)
        terms = value_ranges(bound).of_terms(stage)
        assert terms is not None
        self._types = WindowTypes(accumulated.operators, terms, func.dtypes)
        self._lengths = window_lengths(self._length, overlap=self._overlap, ratio=self._types.ratio)
        self._elements = tuple(
            evaluate_truncated(v, d, partial(value_ranges(bound).of, stage)) if d != v.dtype else v
            for v, d in zip(accumulated.values, self._types.of(1), strict=True)
        )
        """The values of the update in the narrowest types."""

    def build(self, taken: Collection[str]) -> Func:
        """Return the Func that combines windows; its other stages are unchanged."""
        names, f = {*taken}, self._func
        if not all(isinstance(v, Load) for v in self._elements):  # computed once per element
            self._windows[1] = self._new_func(1, names, self._elements_at(0, alone=True))
        shorter = 1
        for n in self._lengths:
            parts = [self._window_at(shorter, f.vars, at, alone=True) for at in range(0, n, shorter)]
            self._windows[n] = self._new_func(n, names, self._total(parts, self._types.of(n)))
            shorter = n
        new = Func(f.name)
        new.location, new._dtypes = f.location, f.dtypes
        new.boundary, new.boundary_ranges = f.boundary, f.boundary_ranges
        unchanged = [with_replaced_reads(d, {f: Replacement(new)}) for d in f.definitions]
        before, update = unchanged[: self._number], self._update(new)
        if len(before) == 1 and before[0].values and not update.rvars:  # a pure Func can be inlined
            before, update = [], replace(update, values=self._total([before[0].values, self._whole(f.vars)], f.dtypes))
        new._definitions += [*before, update, *unchanged[self._number + 1 :]]
        return new

    def _new_func(self, length: int, names: set[str], values: Sequence[Expr]) -> Func:
        f = Func(fresh_name(f"{self._func.name}_w{length}", names))
        names.add(f.name)
        f.location, f._dtypes = self._func.location, self._types.of(length)
        f._definitions.append(Definition(self._func.vars, tuple(values), (), self._definition.location))
        return f

    def _elements_at(self, shift: int, *, alone: bool) -> tuple[Expr, ...]:
        """Return the values of the element ``shift`` after a point; ``alone`` with the other loops at 0."""
        table: dict[int, Expr] = {id(r): _integer(0) for r in self._definition.rvars if alone}
        table |= {id(r): _integer(self._step * shift) for r in self._definition.rvars if r.name == self._loop}
        return tuple(substitute(v, table) for v in self._elements)

    def _window_at(self, length: int, point: Sequence[Expr], shift: int, *, alone: bool = False) -> tuple[Expr, ...]:
        """Return the values of a window that begins ``shift`` elements after a point."""
        if length not in self._windows:
            return self._elements_at(shift, alone=alone)
        moved = list(point)
        if shift:
            moved[self._axis] = moved[self._axis] + shift
        window = self._windows[length]
        return tuple(Load(window, tuple(moved), d, k) for k, d in enumerate(window.dtypes))

    def _total(self, parts: Sequence[tuple[Expr, ...]], dtypes: Sequence[DType]) -> tuple[Expr, ...]:
        """Return the combination of windows in some types, from the first to the last."""
        kinds = tuple(zip(self._accumulated.operators, dtypes, strict=True))
        wide = [tuple(to_strong_type(e, d) for e, d in zip(part, dtypes, strict=True)) for part in parts]

        def both(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> tuple[Expr, ...]:
            return tuple(Binary(op, v, w, d) for (op, d), v, w in zip(kinds, a, b, strict=True))

        return reduce(both, wide)

    def _update(self, new: Func) -> Definition:
        """Return the update over the remaining loops that combines the windows of all elements."""
        point: list[Expr] = list(self._func.vars)
        for axis, shift in self._others:
            point[axis] = point[axis] + shift
        own = tuple(Load(new, self._func.vars, d, k) for k, d in enumerate(self._func.dtypes))
        rvars = tuple(r for r in self._definition.rvars if r.name != self._loop)
        return Definition(
            self._func.vars, self._total([own, self._whole(point)], self._func.dtypes), rvars, self._definition.location
        )

    def _whole(self, point: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the combination of windows that cover all elements."""
        parts = _covering(self._length, (1, *self._lengths), overlap=self._overlap)
        return self._total([self._window_at(n, point, self._first + start) for n, start in parts], self._func.dtypes)


def _integer(value: int) -> Const:
    return Const(value, int32, weak=True)
