"""Reductions cut into pieces that run at the same time: what others call rfactor, or a partial reduction.

An update ``f[p] = f[p] op value`` over the loops of a reduction, in any order, is the same as this, up to the rounding
of floating-point sums: ``f_part[k, p]`` accumulates the k-th piece of the loops, and ``f`` accumulates the pieces. So a
pipeline with split reductions is again a pipeline, with more Funcs, which what comes after need not know. It is made
for a schedule that asks for it; no user's pipeline declares it.

Where a split is atomic, the iterations of a piece run on threads side by side: ``f_shared[k, p]`` is what they combine
their values with, and ``f_part[k, p]`` a copy of it, so that one block can have its own in shared memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from autosched.analysis.access.accumulation import Accumulation, accumulation, identity
from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, RFactor
from autosched.analysis.indices import index as ix
from autosched.analysis.rewrites.rebuild import Replacement, fresh_name, rebuild_pipeline, with_replaced_reads
from autosched.analysis.rewrites.rewrite import apply, build
from autosched.errors import ScheduleError
from autosched.lang.expr import Binary, Expr, Load, RVar, Var, postorder
from autosched.lang.func import Definition, Func
from autosched.lang.functions import min as smaller
from autosched.lang.functions import select
from autosched.lang.rdom import RDom, substitute

PART = "part"
"""What follows the name of a Func in that of its pieces."""
SHARED = "shared"
"""What follows it in that of the Func which many threads add to."""
ATOMIC_OPERATORS = {
    "add": ("int32", "uint32", "float32", "float64"),
    **dict.fromkeys(("min", "max", "and", "or", "xor"), ("int32", "uint32")),
}
"""Types on which devices have each operator as one atomic operation."""


def apply_rfactors(bound: BoundPipeline, splits: Sequence[RFactor]) -> BoundPipeline:
    """Return the pipeline in which reductions are split, one after the other.

    Args:
        bound: A pipeline; of one that was split already, the original is taken.
        splits: What to split. The same splits give the same object.

    Raises:
        ScheduleError: If a split names no such update, loop or number of pieces, or an update that accumulates nothing.
    """
    return reduce(apply, splits, bound.root_pipeline)


def rfactor_error(bound: BoundPipeline, split: RFactor) -> str:
    """Return why a reduction cannot be split so, or nothing."""
    func = bound.funcs.get(split.func)
    if func is None or not 0 < split.stage < len(func.stages):
        return f"there is no update {split.stage} of {split.func!r}"
    stage = func.stages[split.stage]
    if stage.combine:
        return f"update {split.stage} of {split.func!r} is atomic already"
    found = _accumulated(bound, split)
    if found is None:
        return f"update {split.stage} of {split.func!r} is not of the form f[p] = f[p] op value in any order"
    extents = {d.name: d.extent for d in stage.reductions}
    names = [name for name, _ in split.loops]
    if not (names or split.atomic) or len(set(names)) < len(names):
        return f"the split of {split.func!r} names no loop, or one twice"
    for name, pieces in split.loops:
        if name not in extents:
            return f"update {split.stage} of {split.func!r} has no loop {name!r}; it has {', '.join(extents)}"
        if any(name in ix.loop_vars(i) for i in stage.store):
            return (
                f"loop {name} of {split.func!r} says where the update writes, so its pieces would not be of one point"
            )
        if not 1 < pieces <= extents[name]:
            return (
                f"loop {name} of {split.func!r} has {extents[name]} iterations and cannot be cut into {pieces} pieces"
            )
    if split.atomic:
        return _atomic_error(func, split, found.operators)
    return ""


def _atomic_error(func: BoundFunc, split: RFactor, operators: Sequence[str]) -> str:
    """Return why an update cannot be atomic, or nothing."""
    for op, dtype in zip(operators, func.dtypes, strict=True):
        if dtype.name not in ATOMIC_OPERATORS.get(op, ()):
            return f"update {split.stage} of {split.func!r} cannot be atomic: devices have no atomic {op} of {dtype}"
    if func.stages[split.stage].is_empty:
        return f"update {split.stage} of {split.func!r} has no iterations to do side by side"
    return ""


def _object(bound: BoundPipeline, name: str) -> Func:
    return bound.pipeline.func(name)


def _accumulated(bound: BoundPipeline, split: RFactor) -> Accumulation | None:
    if not bound.funcs[split.func].stages[split.stage].associative:
        return None
    func = _object(bound, split.func)
    return accumulation(func, func.definitions[split.stage])


@build.register
def _build(split: RFactor, bound: BoundPipeline) -> BoundPipeline:
    problem = rfactor_error(bound, split)
    if problem:
        raise ScheduleError(f"{problem}: leave this split out, or make a new schedule")
    old = _object(bound, split.func)
    found = _accumulated(bound, split)
    assert found is not None
    extents = {d.name: d.extent for d in bound.funcs[split.func].stages[split.stage].reductions}
    maker = _Splitter(old, split, found, extents, {*bound.funcs, *bound.inputs})
    rebuilt = rebuild_pipeline(bound, {old: Replacement(maker.whole())}).bound
    return replace(rebuilt, before_rfactor=bound.root_pipeline, rfactors=(*bound.rfactors, split))


class _Splitter:
    """Makes the pieces of a reduction, and the Func that joins them.

    Args:
        func: The Func.
        split: How it is split.
        found: What its update accumulates.
        extents: Iterations of each loop of the update.
        taken: Names that the Func of the pieces cannot have.
    """

    def __init__(
        self, func: Func, split: RFactor, found: Accumulation, extents: Mapping[str, int], taken: Collection[str]
    ) -> None:
        self._func = func
        self._number = split.stage
        self._found = found
        self._definition = func.definitions[split.stage]
        self._pieces = dict(split.loops)
        self._extents = extents
        self._new = Func(func.name)
        self._part = Func(fresh_name(f"{func.name}_{PART}", taken))
        self._sum = Func(fresh_name(f"{func.name}_{SHARED}", taken)) if split.atomic else self._part
        self._sum.atomic = split.atomic
        for made in (self._new, self._part, self._sum):
            made.location = func.location
        self._of_piece = {
            r.name: Var(fresh_name(f"k{n}", func.dims)) for n, r in enumerate(self._cut_loops)
        }  # the dimension of the pieces that belongs to each loop

    @property
    def _cut_loops(self) -> list[RVar]:
        return [r for r in self._definition.rvars if r.name in self._pieces]

    def whole(self) -> Func:
        """Return the Func that joins the pieces; its other stages are as they were."""
        self._define_part()
        self._new._dtypes = self._func.dtypes
        self._new.boundary, self._new.boundary_ranges = self._func.boundary, self._func.boundary_ranges
        for number, d in enumerate(self._func.definitions):
            joined = (
                self._joined()
                if number == self._number
                else with_replaced_reads(d, {self._func: Replacement(self._new)})
            )
            self._new._definitions.append(joined)
        return self._new

    def _define_part(self) -> None:
        """Define the pieces: nothing yet, then what each loop's share adds; a copy of these, if they are atomic."""
        f, found = self._func, self._found
        dims = (*self._of_piece.values(), *f.vars)
        part = self._sum
        part._dtypes = f.dtypes
        nothing = tuple(identity(op, d) for op, d in zip(found.operators, f.dtypes, strict=True))
        part._definitions.append(Definition(dims, nothing, (), self._definition.location))
        table, loops, inside = self._shares()
        at = tuple(substitute(i, table) for i in self._definition.indices)
        point = (*self._of_piece.values(), *at)
        values = []
        for k, (op, value, none) in enumerate(zip(found.operators, found.values, nothing, strict=True)):
            share = substitute(value, table)
            if inside is not None:
                share = select(inside, share, none)
            values.append(Binary(op, Load(part, point, f.dtypes[k], k), share, f.dtypes[k]))
        part._definitions.append(Definition(point, tuple(values), loops, self._definition.location))
        if part is not self._part:
            copied = tuple(Load(part, dims, d, k) for k, d in enumerate(f.dtypes))
            self._part._dtypes = f.dtypes
            self._part._definitions.append(Definition(dims, copied, (), self._definition.location))

    def _shares(self) -> tuple[dict[int, Expr], tuple[RVar, ...], Expr | None]:
        """Return what stands for each loop that is cut, the loops of a piece, and the condition for the last round."""
        rounds = {r.name: -(-self._extents[r.name] // self._pieces[r.name]) for r in self._cut_loops}
        kept = {name: n for name, n in rounds.items() if n > 1}
        taken = {r.name.partition(".")[0] for r in self._definition.rvars}
        rest = {f"j{k}": n for k, n in enumerate(kept.values())}
        domain = RDom(fresh_name("share", taken), **rest) if kept else None
        of_loop = dict(zip(kept, domain or (), strict=True))
        table: dict[int, Expr] = {}
        inside: Expr | None = None
        loops: list[RVar] = []
        for r in self._definition.rvars:
            if r.name not in self._pieces:
                loops.append(r)
                continue
            step: Expr = self._of_piece[r.name]
            if r.name in of_loop:
                loops.append(of_loop[r.name])
                step = step + self._pieces[r.name] * of_loop[r.name]
            extent = self._extents[r.name]
            if rounds[r.name] * self._pieces[r.name] != extent:
                within = step < extent
                inside = within if inside is None else inside & within
                step = smaller(step, extent - 1)
            table[id(r)] = r.lower + step
        return table, tuple(loops), inside

    def _joined(self) -> Definition:
        """Return the update that accumulates the pieces.

        Where the update scatters, any point may have got something, so all are visited.
        """
        f, found = self._func, self._found
        scatters = any(_has_loop(i) for i in self._definition.indices)
        at: tuple[Expr, ...] = f.vars if scatters else self._definition.indices
        names = {f"k{n}": self._pieces[r.name] for n, r in enumerate(self._cut_loops)}
        loops = RDom(PART, **names).vars if names else ()
        values = tuple(
            Binary(op, Load(self._new, at, d, k), Load(self._part, (*loops, *at), d, k), d)
            for k, (op, d) in enumerate(zip(found.operators, f.dtypes, strict=True))
        )
        return Definition(at, values, loops, self._definition.location)


def _has_loop(e: Expr) -> bool:
    done: dict[int, Any] = {}
    found = False
    for node in postorder([e], done):
        done[id(node)] = node
        found |= isinstance(node, RVar)
    return found
