"""Regions that a pipeline reads, by enumeration of every loop and evaluation of every index."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence

from autosched.lang.expr import Binary, Const, Expr, Load, RVar, Select, ShapeDim, Var, walk
from autosched.lang.func import Definition, Func, Input
from autosched.lang.pipeline import Pipeline

Point = tuple[int, ...]
Shapes = Mapping[str, tuple[int, ...]]
_OPERATORS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod,
    "min": min, "max": max, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq,
}  # fmt: skip


def value(e: Expr, env: Mapping[int | str, int], shapes: Shapes) -> int:
    """Return an integer expression without data; loops by name (Var) or ``id`` (RVar)."""
    match e:
        case Const():
            return int(e.value)
        case Var():
            return env[e.name]
        case RVar():
            return env[id(e)]
        case ShapeDim():
            return shapes[e.input.name][e.axis]
        case Binary():
            return int(_OPERATORS[e.op](value(e.a, env, shapes), value(e.b, env, shapes)))
        case Select():
            return value(e.t if value(e.cond, env, shapes) else e.f, env, shapes)
    raise TypeError(f"{e!r} is no coordinate")


def loads_of(d: Definition) -> list[Load]:
    return [n for root in (*d.values, *d.indices) for n in walk(root) if isinstance(n, Load)]


def iterations(
    func: Func, d: Definition, points: Sequence[tuple[int, int]], shapes: Shapes
) -> Iterator[dict[int | str, int]]:
    """Yield every iteration of a stage that computes a box of its Func (inclusive ranges)."""
    pure = {v.name for v in d.pure_vars} if d is not func.definitions[0] else set(func.dims)
    names: list[int | str] = [n for n in func.dims if n in pure]
    ranges = [range(lo, hi + 1) for n, (lo, hi) in zip(func.dims, points, strict=True) if n in pure]
    names += [id(r) for r in d.rvars]
    ranges += [range(value(r.lower, {}, shapes), value(r.upper, {}, shapes)) for r in d.rvars]
    for at in itertools.product(*ranges):
        yield dict(zip(names, at, strict=True))


def touched(
    func: Func, box: Sequence[tuple[int, int]], shapes: Shapes
) -> tuple[dict[Func | Input, set[Point]], set[Point]]:
    """Return the points of every source that a box of a Func reads, and the points that its updates write."""
    reads: dict[Func | Input, set[Point]] = {}
    writes: set[Point] = set()
    for d in func.definitions:
        for env in iterations(func, d, box, shapes):
            if d is not func.definitions[0]:
                writes.add(tuple(value(i, env, shapes) for i in d.indices))
            for load in loads_of(d):
                reads.setdefault(load.source, set()).add(tuple(value(i, env, shapes) for i in load.indices))
    return reads, writes


def hull(points: set[Point]) -> tuple[tuple[int, int], ...]:
    return tuple((min(axis), max(axis)) for axis in zip(*points, strict=True))


def joined(a: Sequence[tuple[int, int]] | None, b: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple(b) if a is None else tuple((min(p, r), max(q, s)) for (p, q), (r, s) in zip(a, b, strict=True))


def regions(
    pipeline: Pipeline, boxes: Mapping[Func, Sequence[tuple[int, int]]], shapes: Shapes
) -> dict[Func | Input, tuple[tuple[int, int], ...]]:
    """Return the hull of all read, written and requested points of every source."""
    found: dict[Func | Input, tuple[tuple[int, int], ...]] = {f: tuple(box) for f, box in boxes.items()}
    for func in reversed(pipeline.funcs):
        if func not in found:
            continue
        while True:  # an update may read and write outside the required region
            reads, writes = touched(func, found[func], shapes)
            grown = found[func]
            for points in (reads.get(func, set()), writes):
                grown = joined(grown, hull(points)) if points else grown
            if grown == found[func]:
                break
            found[func] = grown
        for source, points in reads.items():
            if source is not func:
                found[source] = joined(found.get(source), hull(points))
    return found
