"""Reduction factoring (rfactor): partial reductions that run in parallel.

    f[p] += a[p, r]  over r < 1000   ->   f_part[k, p] += a[p, 4*r + k]  over r < 250;  f[p] += f_part[k, p]  over k < 4

Contiguous parts have consecutive iterations:

    f[p] += a[p, r]  over r < 1000   ->   f_part[k, p] += a[p, 250*k + r]  over r < 250;  ...

Holds for updates ``f[p] = f[p] op value`` in any order, up to the rounding of floating-point sums. The result is an
ordinary pipeline with more Funcs, made for the schedules that contain the factoring.

With atomic updates, threads execute the iterations of a part concurrently: they update ``f_shared[k, p]``, and
``f_part[k, p]`` is a copy of it, so that each block can accumulate in shared memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from autosched.analysis.access.accumulation import Accumulation, identity
from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.analysis.pipeline_rewrites import RFactor
from autosched.analysis.rewrites.rebuild import (
    Replacement,
    fresh_name,
    rebuild_pipeline,
    update_accumulation,
    with_replaced_reads,
)
from autosched.analysis.rewrites.rewrite import apply, build
from autosched.errors import ScheduleError
from autosched.lang.expr import Binary, Expr, Load, RVar, Var, walk
from autosched.lang.func import Definition, Func
from autosched.lang.functions import min as smaller
from autosched.lang.functions import select
from autosched.lang.rdom import RDom, substitute

PART = "part"
"""Suffix of the Func of partial reductions."""
SHARED = "shared"
"""Suffix of the Func of atomic updates."""
ATOMIC_OPERATORS = {
    "add": ("int32", "uint32", "float32", "float64"),
    **dict.fromkeys(("min", "max", "and", "or", "xor"), ("int32", "uint32")),
}
"""Types for which devices have an atomic operation of each operator."""


def apply_rfactors(bound: BoundPipeline, rfactors: Sequence[RFactor]) -> BoundPipeline:
    """Return the pipeline with factored reductions; the same factorings give the same object.

    Args:
        bound: The pipeline. Its own rfactors and later rewrites are replaced.
        rfactors: The factorings, in the order of their application.

    Raises:
        ScheduleError: If a reduction cannot be factored, see `rfactor_error`.
    """
    rewritten = bound.rewritten
    return reduce(apply, rfactors, rewritten.before_rfactor or rewritten)


def rfactor_error(bound: BoundPipeline, rfactor: RFactor) -> str:
    """Return the reason why a reduction cannot be factored; empty if it can."""
    func = bound.funcs.get(rfactor.func)
    if func is None or not 0 < rfactor.stage < len(func.stages):
        return f"there is no update {rfactor.stage} of {rfactor.func!r}"
    stage = func.stages[rfactor.stage]
    if stage.combine:
        return f"update {rfactor.stage} of {rfactor.func!r} is atomic already"
    accumulated = update_accumulation(bound, rfactor.func, rfactor.stage)
    if accumulated is None:
        return f"update {rfactor.stage} of {rfactor.func!r} is not of the form f[p] = f[p] op value in any order"
    extents = {d.name: d.extent for d in stage.reductions}
    names = [name for name, _ in rfactor.loops]
    if not (names or rfactor.atomic) or len(set(names)) < len(names):
        return f"the rfactor of {rfactor.func!r} names no loop, or one twice"
    for name, parts in rfactor.loops:
        if name not in extents:
            return f"update {rfactor.stage} of {rfactor.func!r} has no loop {name!r}; it has {', '.join(extents)}"
        if any(name in ix.loop_vars(i) for i in stage.store):
            return (
                f"loop {name} of {rfactor.func!r} determines the written point; only loops that accumulate into one "
                "point can be factored"
            )
        if not 1 < parts <= extents[name]:
            return (
                f"loop {name} of {rfactor.func!r} has {extents[name]} iterations and cannot be factored into {parts} "
                "parts: give at least 2 and at most one for each iteration"
            )
    if rfactor.atomic:
        return _atomic_error(func, rfactor, accumulated.operators)
    return ""


def _atomic_error(func: BoundFunc, rfactor: RFactor, operators: Sequence[str]) -> str:
    """Return the reason why an update cannot be atomic; empty if it can."""
    for op, dtype in zip(operators, func.dtypes, strict=True):
        if dtype.name not in ATOMIC_OPERATORS.get(op, ()):
            return (
                f"update {rfactor.stage} of {rfactor.func!r} cannot be atomic: devices have no atomic {op} of {dtype}"
            )
    if func.stages[rfactor.stage].is_empty:
        return f"update {rfactor.stage} of {rfactor.func!r} has no iterations to run in parallel"
    return ""


def _object(bound: BoundPipeline, name: str) -> Func:
    return bound.pipeline.func(name)


@build.register
def _build(rfactor: RFactor, bound: BoundPipeline) -> BoundPipeline:
    problem = rfactor_error(bound, rfactor)
    if problem:
        raise ScheduleError(f"{problem}: remove this rfactor, or make a new schedule")
    old = _object(bound, rfactor.func)
    accumulated = update_accumulation(bound, rfactor.func, rfactor.stage)
    assert accumulated is not None
    extents = {d.name: d.extent for d in bound.funcs[rfactor.func].stages[rfactor.stage].reductions}
    builder = _FactoredFunc(old, rfactor, accumulated, extents, {*bound.funcs, *bound.inputs})
    rebuilt = rebuild_pipeline(bound, {old: Replacement(builder.build())}).bound
    return replace(
        rebuilt, windows=bound.windows, before_windows=bound.before_windows, scans=bound.scans,
        before_scans=bound.before_scans, deinterleavings=bound.deinterleavings,
        before_deinterleaving=bound.before_deinterleaving, hoistings=bound.hoistings,
        before_hoisting=bound.before_hoisting, unrollings=bound.unrollings, before_unrolling=bound.before_unrolling,
        narrowings=bound.narrowings, before_narrowing=bound.before_narrowing,
        before_rfactor=bound.before_rfactor or bound, rfactors=(*bound.rfactors, rfactor),
    )  # fmt: skip


class _FactoredFunc:
    """Builds the partial reductions of a Func, and the Func that accumulates them.

    Args:
        func: The Func.
        rfactor: The factoring.
        accumulated: Accumulation of its update.
        extents: Iterations of each loop of the update.
        taken: Names in use.
    """

    def __init__(
        self,
        func: Func,
        rfactor: RFactor,
        accumulated: Accumulation,
        extents: Mapping[str, int],
        taken: Collection[str],
    ) -> None:
        self._func = func
        self._number = rfactor.stage
        self._accumulated = accumulated
        self._definition = func.definitions[rfactor.stage]
        self._parts = dict(rfactor.loops)
        self._contiguous = rfactor.contiguous
        self._extents = extents
        self._new = Func(func.name)
        self._part = Func(fresh_name(f"{func.name}_{PART}", taken))
        self._sum = Func(fresh_name(f"{func.name}_{SHARED}", taken)) if rfactor.atomic else self._part
        self._sum.atomic = rfactor.atomic
        for f in (self._new, self._part, self._sum):
            f.location = func.location
        self._part_dims = {
            r.name: Var(fresh_name(f"k{n}", func.dims)) for n, r in enumerate(self._factored_loops)
        }  # the dimension of the parts for each factored loop

    @property
    def _factored_loops(self) -> list[RVar]:
        return [r for r in self._definition.rvars if r.name in self._parts]

    def build(self) -> Func:
        """Return the Func that accumulates the partial reductions; its other stages are unchanged."""
        self._define_part()
        self._new._dtypes = self._func.dtypes
        self._new.boundary, self._new.boundary_ranges = self._func.boundary, self._func.boundary_ranges
        for number, d in enumerate(self._func.definitions):
            definition = (
                self._accumulation_of_parts()
                if number == self._number
                else with_replaced_reads(d, {self._func: Replacement(self._new)})
            )
            self._new._definitions.append(definition)
        return self._new

    def _define_part(self) -> None:
        """Define the partial reductions: identity elements, then an update; with atomic updates, a copy of these."""
        f, accumulated = self._func, self._accumulated
        dims = (*self._part_dims.values(), *f.vars)
        part = self._sum
        part._dtypes = f.dtypes
        identities = tuple(identity(op, d) for op, d in zip(accumulated.operators, f.dtypes, strict=True))
        part._definitions.append(Definition(dims, identities, (), self._definition.location))
        table, loops, inside = self._part_loops()
        at = tuple(substitute(i, table) for i in self._definition.indices)
        point = (*self._part_dims.values(), *at)
        values = []
        for k, (op, value, neutral) in enumerate(
            zip(accumulated.operators, accumulated.values, identities, strict=True)
        ):
            term = substitute(value, table)
            if inside is not None:
                term = select(inside, term, neutral)
            values.append(Binary(op, Load(part, point, f.dtypes[k], k), term, f.dtypes[k]))
        part._definitions.append(Definition(point, tuple(values), loops, self._definition.location))
        if part is not self._part:
            copied = tuple(Load(part, dims, d, k) for k, d in enumerate(f.dtypes))
            self._part._dtypes = f.dtypes
            self._part._definitions.append(Definition(dims, copied, (), self._definition.location))

    def _part_loops(self) -> tuple[dict[int, Expr], tuple[RVar, ...], Expr | None]:
        """Return the substitution of factored loops, the loops of a part, and the guard of the last iteration."""
        rounds = {r.name: -(-self._extents[r.name] // self._parts[r.name]) for r in self._factored_loops}
        kept = {name: n for name, n in rounds.items() if n > 1}
        taken = {r.name.partition(".")[0] for r in self._definition.rvars}
        rest = {f"j{k}": n for k, n in enumerate(kept.values())}
        domain = RDom(fresh_name("share", taken), **rest) if kept else None
        of_loop = dict(zip(kept, domain or (), strict=True))
        table: dict[int, Expr] = {}
        inside: Expr | None = None
        loops: list[RVar] = []
        for r in self._definition.rvars:
            if r.name not in self._parts:
                loops.append(r)
                continue
            step: Expr = self._part_dims[r.name]
            if r.name in of_loop:
                loops.append(of_loop[r.name])
                if self._contiguous:
                    step = rounds[r.name] * step + of_loop[r.name]
                else:
                    step = step + self._parts[r.name] * of_loop[r.name]
            extent = self._extents[r.name]
            if rounds[r.name] * self._parts[r.name] != extent:
                within = step < extent
                inside = within if inside is None else inside & within
                step = smaller(step, extent - 1)
            table[id(r)] = r.lower + step
        return table, tuple(loops), inside

    def _accumulation_of_parts(self) -> Definition:
        """Return the update that accumulates the partial reductions: over all points for a scatter."""
        f, accumulated = self._func, self._accumulated
        scatters = any(_has_loop(i) for i in self._definition.indices)
        at: tuple[Expr, ...] = f.vars if scatters else self._definition.indices
        names = {f"k{n}": self._parts[r.name] for n, r in enumerate(self._factored_loops)}
        loops = RDom(PART, **names).vars if names else ()
        values = tuple(
            Binary(op, Load(self._new, at, d, k), Load(self._part, (*loops, *at), d, k), d)
            for k, (op, d) in enumerate(zip(accumulated.operators, f.dtypes, strict=True))
        )
        return Definition(at, values, loops, self._definition.location)


def _has_loop(e: Expr) -> bool:
    return any(isinstance(node, RVar) for node in walk(e))
