"""Stages, regions and checked reads of a pipeline with concrete shapes, for any output boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NoReturn

from autosched.analysis.access.accumulation import accumulation
from autosched.analysis.access.argument_reduction import check_argument_reduction
from autosched.analysis.access.dependence import update_dependences
from autosched.analysis.access.regions import (
    Range,
    Region,
    footprint_region,
    hull,
    is_empty,
    join,
    loop_ranges,
    with_fixed_dims,
)
from autosched.analysis.access.uninitialised_reads import check_uninitialised_reads
from autosched.analysis.access.update_masks import clamp_masked_indices
from autosched.analysis.arguments import MOST_BYTES, Shapes, checked_params, checked_shapes
from autosched.analysis.bound_pipeline import (
    AccessFootprint,
    BoundFunc,
    BoundInput,
    BoundPipeline,
    BoundStage,
    Box,
    LoopDim,
)
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.index_overflow import check_index_overflow
from autosched.analysis.indices.integer_widths import resolve_integer_widths
from autosched.analysis.indices.to_index import Near, index_operands, rvar_range, to_index
from autosched.analysis.specialise import Specialiser
from autosched.errors import BoundsError, DSLError, InputError
from autosched.lang.expr import Binary, Cast, Expr, Load, Scalar, Unary, Var, walk
from autosched.lang.func import Definition, Func, Input
from autosched.lang.pipeline import Pipeline

LARGEST_EXTENT = 1 << 40
MOST_ROUNDS = 16
"""Iterations after which the growth of a region by self-reads counts as unbounded."""
LARGEST_INDEX = 1 << 30
"""Extent below which the range of a data-dependent index must stay."""
MOST_ITERATIONS = 1 << 60
"""Product of the extents of a stage's loops; larger costs and counts would not fit 64 bits."""
BOUND_IT = (
    "bound it: clamp(e, low, high), e % n, an 8- or 16-bit type, or comparisons of it with both ends: "
    "select((e >= 0) & (e < n), f[e], 0) for a read, r.where((e >= 0) & (e < n)) for an update over an RDom r"
)


@dataclass(frozen=True, slots=True)
class DefinedStage:
    """A definition with concrete shapes and parameters, before bounds inference."""

    indices: tuple[ix.Index, ...]
    stage: BoundStage
    loads: tuple[Load, ...]
    definition: Definition


class Binder:
    """The parts of binding that do not depend on the output boxes, so that several boxes can be tried."""

    def __init__(self, pipeline: Pipeline, shapes: Shapes, params: Mapping[str, Scalar]) -> None:
        self.pipeline = pipeline
        self.shapes = checked_shapes(pipeline, shapes)
        self.specialised = checked_params(pipeline, params)
        self.specialiser = Specialiser(self.shapes, self.specialised)
        self.names: dict[int, str] = {id(f): pipeline.name_of(f) for f in pipeline.funcs}
        self.names |= {id(i): i.name for i in pipeline.inputs}
        sources: list[Func | Input] = [*pipeline.funcs, *pipeline.inputs]
        self._sources = {self.names[id(s)]: s for s in sources}
        self._near: dict[Func, Near] = {}
        self.within = {f: self._boundary(f) for f in pipeline.funcs}
        self.stages = {f: tuple(self._stage(f, k) for k in range(len(f.definitions))) for f in pipeline.funcs}
        self.fixed = {f: self._fixed(f) for f in pipeline.funcs}
        self._whole: dict[
            Func, tuple[tuple[int, int] | None, ...]
        ] = {}  # `fixed`, extended by self-reads at other points
        self._crops: list[Func] = []  # stored: `names` is keyed by their ids

    def declared_box(self, func: Func) -> Box | None:
        """Return the inclusive box that an output declares, None if it declares none."""
        output = next(o for o in self.pipeline.outputs if o.func is func)
        if output.box is None:
            return () if func.ndim == 0 else None
        box = []
        for dim, (low, high) in zip(func.dims, output.box, strict=True):
            lo, hi = to_index(self.specialiser(low)), to_index(self.specialiser(high))
            if not isinstance(lo, int) or not isinstance(hi, int):
                raise DSLError(
                    f"the box of output {func.name!r} in {dim} depends on more than shapes and parameters",
                    location=func.location,
                )
            if hi < lo:
                raise InputError(
                    f"output {func.name!r} has a negative extent: {dim} ranges over [{lo}, {hi}) for shapes "
                    f"{dict(self.shapes)}"
                )
            box.append((lo, hi - 1))
        return tuple(box)

    def _boundary(self, func: Func) -> tuple[tuple[int, int] | None, ...]:
        """Return the range that a boundary condition reads in each dimension; None for unbounded dimensions."""
        ranges: dict[str, tuple[int, int]] = {}
        for dim, (low, high) in func.boundary_ranges.items():
            lo, hi = (int(ix.interval(to_index(self.specialiser(e)))[0]) for e in (low, high))
            ranges[dim] = lo, hi - 1
        return tuple(ranges.get(d) for d in func.dims)

    def needs_coordinates(self) -> bool:
        """Whether the range of an index depends on the ranges of coordinates."""
        return any(
            _is_bare(e, s.stage.memo)
            for f in self.pipeline.funcs
            for s in self.stages[f]
            for root in (*s.stage.indices, *(i for load in s.loads for i in load.indices))
            for e in walk(root)
        )

    def _check_boundary(self, func: Func) -> None:
        """Raise for a boundary condition over an empty range."""
        for dim, within in zip(func.dims, self.within[func], strict=True):
            if within is not None and within[1] < within[0]:
                raise InputError(
                    f"the boundary condition {self.names[id(func)]!r} has the empty range [{within[0]}, "
                    f"{within[1] + 1}) in {dim} for shapes {dict(self.shapes)}"
                )

    def _stage(self, func: Func, number: int) -> DefinedStage:
        definition = self.definition(func, number)
        if number > 0:
            definition = clamp_masked_indices(func, definition, self.seeded(definition))
        return self._analysed(func, number, definition)

    def definition(self, func: Func, number: int) -> Definition:
        """Return a definition with constant shapes and parameters."""
        return self.specialiser.definition(func.definitions[number])

    def unguarded(self, func: Func) -> list[Definition]:
        """Return the definitions of a Func as they are written, apart from shapes and parameters."""
        return [s.definition for s in self.stages[func]]

    def as_written(self, e: Expr) -> Expr:
        """Return an index of a read as it is written."""
        return e

    def seeded(self, definition: Definition) -> dict[int, ix.Index]:
        """Return the indices of a definition's operands whose ranges do not follow from their types, by ``id``."""
        return {}

    def _analysed(self, func: Func, number: int, bound: Definition) -> DefinedStage:
        """Analyse a definition in which shapes and parameters are constants."""
        near = self._near.get(func)
        d = func.definitions[number]
        indices, values, rvars = bound.indices, bound.values, bound.rvars
        memo = self.seeded(bound)
        ranges = {r.name: rvar_range(r) for r in rvars}
        for name, (lo, hi) in ranges.items():
            if hi - lo >= LARGEST_EXTENT:
                raise BoundsError(f"{name} of {func.name!r} has {hi - lo + 1} iterations", location=d.location)
        parallel, associative, owns = frozenset((*ranges, *func.dims)), False, True
        in_step: frozenset[str] = frozenset()
        combine: tuple[str, ...] = ()
        steps: tuple[str, ...] = ()
        if number > 0 and func.atomic:
            accumulated = accumulation(func, bound)
            assert accumulated is not None, f"the updates of {func.name} only accumulate"
            values, combine, associative = accumulated.values, accumulated.operators, True
        elif number > 0:
            dependences = update_dependences(func, bound, ranges)
            parallel, associative, owns = dependences.parallel, dependences.associative, dependences.owns_point
            in_step, steps = dependences.parallel_within_step - parallel, dependences.steps
            if dependences.unordered:
                raise _unordered(self.names[id(func)], sorted(dependences.unordered)[0], d)
        pure = [v.name for v in func.vars if number == 0 or v.name in _pure_names(d.indices)]
        loops = tuple(LoopDim(n, False, n in parallel, in_step=n in in_step) for n in pure)
        loops += tuple(
            LoopDim(r.name, True, r.name in parallel, *ranges[r.name], in_step=r.name in in_step) for r in rvars
        )
        loads = tuple(loads_of((*values, *indices)))
        store = tuple(to_index(e, memo, near) for e in indices)
        stage = BoundStage(
            func=self.names[id(func)], number=number, loops=loops, store=store, indices=indices, values=values,
            footprints=tuple(self._footprints(loads, memo, near)), associative=associative, owns_point=owns,
            location=d.location, memo=memo, names=self.names, combine=combine, steps=steps,
        )  # fmt: skip
        return DefinedStage(store, stage, loads, bound)

    def _footprints(self, loads: Sequence[Load], memo: dict[int, ix.Index], near: Near | None) -> list[AccessFootprint]:
        """Return the footprint of each source; of indices that differ by a constant only the extremes matter."""
        extents: dict[str, list[dict[str, tuple[ix.Index, ix.Index]]]] = {}
        for load in loads:
            dims = extents.setdefault(self.names[id(load.source)], [{} for _ in load.indices])
            for extremes, e in zip(dims, load.indices, strict=True):
                i = to_index(e, memo, near)
                linear = ix.key(ix.sub(i, i.const)) if isinstance(i, ix.Affine) else ""
                lo, hi = extremes.get(linear, (i, i))
                extremes[linear] = (min(lo, i, key=_constant), max(hi, i, key=_constant))
        return [
            AccessFootprint(
                name, tuple(tuple({ix.key(i): i for pair in d.values() for i in pair}.values()) for d in dims)
            )
            for name, dims in extents.items()
        ]

    def _fixed(self, func: Func) -> tuple[tuple[int, int] | None, ...]:
        """Return the range that updates access in each dimension whose index is not the dimension's Var; else None."""
        fixed: list[tuple[int, int] | None] = [None] * func.ndim
        for s in self.stages[func][1:]:
            if s.stage.is_empty:
                continue
            for axis, dim in enumerate(func.dims):
                accessed = [s.indices[axis]]
                for f in s.stage.footprints:
                    if f.source == s.stage.func:
                        accessed += f.dims[axis]
                for i in (i for i in accessed if ix.key(i) != f"({dim})"):
                    lo, hi = ix.interval(i)
                    if _is_beside(s, axis, dim, i):
                        if _reads_data(i):
                            self._refuse_data(s, i, func)
                        continue  # see `_grown`
                    if hi - lo >= (LARGEST_INDEX if _reads_data(i) else LARGEST_EXTENT):
                        _check_vars(s, i)
                        self._refuse_data(s, i, func)
                    before = fixed[axis]
                    fixed[axis] = (lo, hi) if before is None else (min(before[0], lo), max(before[1], hi))
        return tuple(fixed)

    def regions(self, boxes: Mapping[Func, Box]) -> dict[Func | Input, Region]:
        """Return the required region of every Func and input for the given output boxes (bounds inference)."""
        regions: dict[Func | Input, Region] = {f: box for f, box in boxes.items()}
        for func in reversed(self.pipeline.funcs):
            if func not in regions or is_empty(regions[func]):  # its readers are loops without iterations
                continue
            self._check_boundary(func)
            shell = self._shell(func, regions[func])
            regions[func] = with_fixed_dims(shell, regions[func])
            regions[func] = self._grown(func, regions[func])
            self.narrow(func, regions[func])
            for s in self.stages[func]:
                if s.stage.is_empty:
                    continue
                env = loop_ranges(s.stage, shell, regions[func])
                for footprint in s.stage.footprints:
                    source = self._sources[footprint.source]
                    if source is func:
                        continue
                    needed = footprint_region(footprint, env)
                    if isinstance(source, Func):
                        self._check_region(s, source, needed)
                    before = regions.get(source)
                    regions[source] = needed if before is None or is_empty(before) else join(before, needed)
        return regions

    def redefine(self, func: Func, definitions: Sequence[Definition]) -> None:
        """Give a Func equal definitions of another form, in which shapes and parameters are constants."""
        self.stages[func] = tuple(self._analysed(func, k, d) for k, d in enumerate(definitions))
        self.fixed[func] = self._fixed(func)

    def ranges(self, s: DefinedStage, func: Func, region: Region) -> dict[str, Range]:
        """Return the inclusive range of each loop of a stage over a region of its Func."""
        return loop_ranges(s.stage, self._shell(func, region), region)

    def narrow(self, func: Func, region: Region) -> None:
        """Refine a Func's indices by the ranges of its coordinates; a no-op in this class."""

    def _grown(self, func: Func, region: Region) -> Region:
        """Return a region extended by the self-reads of updates at other points than the written one.

        Every point of the Func requires the whole extended region.

        Raises:
            BoundsError: If it grows without bound.
        """
        beside = [(s, *at) for s in self.stages[func] for at in _self_reads(s, func.dims) if _is_beside(s, *at)]
        if not beside:
            return region
        for k in range(2 * MOST_ROUNDS):
            before = region
            for s, axis, _, i in beside:
                read = ix.interval(i)  # after many iterations: over the whole ranges of the loops
                if k < MOST_ROUNDS or read[1] - read[0] >= LARGEST_EXTENT:
                    read = ix.bounds(i, loop_ranges(s.stage, self._shell(func, region), region))
                region = (*region[:axis], hull((region[axis], read)), *region[axis + 1 :])
            if region == before:
                whole, fixed = {axis for _, axis, *_ in beside}, self.fixed[func]
                self._whole[func] = tuple(region[k] if k in whole else fixed[k] for k in range(func.ndim))
                return region
        s, _, dim, _ = beside[0]
        raise BoundsError(
            f"stage {s.stage.func!r} reads itself further out in every iteration, in dimension {dim!r}: its region is "
            "unbounded",
            location=s.stage.location,
            hint=f"clamp the index of the self-read: clamp({dim} + 1, low, high)",
        )

    def check_reads(self, regions: Mapping[Func | Input, Region]) -> None:
        """Raise `BoundsError` for the first read outside an input."""
        for i in self.pipeline.inputs:
            shape = self.shapes[i.name]
            box = regions.get(i)
            if box and any(lo < 0 or hi >= n for (lo, hi), n in zip(box, shape, strict=True)):
                self._report_read(i, regions)

    def bind(self, boxes: Mapping[Func, Box]) -> BoundPipeline:
        """Return the bound pipeline for given output boxes, all reads checked."""
        regions = self.regions(boxes)
        if self._resolve_widths(regions):
            regions = self.regions(boxes)
        self.check_reads(regions)
        funcs = {}
        outputs = {o.func for o in self.pipeline.outputs}
        readers: dict[Func, list[str]] = {f: [] for f in self.pipeline.funcs}
        needed = [f for f in self.pipeline.funcs if f in regions and (f in outputs or not is_empty(regions[f]))]
        for f in (f for f in needed if not is_empty(regions[f])):
            for s in self.stages[f]:
                for footprint in s.stage.footprints:
                    source = self._sources[footprint.source]
                    if isinstance(source, Func) and source is not f and self.names[id(f)] not in readers[source]:
                        readers[source].append(self.names[id(f)])
        for f in needed:
            box: Box = tuple((int(lo), int(hi)) for lo, hi in regions[f])
            shell = funcs[self.names[id(f)]] = self._shell(f, box, f in outputs, tuple(readers[f]))
            _check_size(shell, f)
            for stage in (s for s in shell.stages if not s.is_empty):
                _check_iterations(shell, stage)
                check_index_overflow(stage, loop_ranges(stage, shell, box))
            if not is_empty(box):
                check_argument_reduction(shell)
            if not f.definitions[0].values:
                check_uninitialised_reads(shell, f.location)
        cropped = self._cropped_outputs(funcs, boxes)
        inputs = {i.name: BoundInput(i.name, i.dtype, self.shapes[i.name]) for i in self.pipeline.inputs}
        return BoundPipeline(
            pipeline=self.pipeline, shapes=self.shapes, inputs=inputs, funcs=funcs,
            outputs={n: cropped.get(n, n) for n in (self.names[id(o.func)] for o in self.pipeline.outputs)},
            scalars=tuple(p for p in self.pipeline.params if p.name not in self.specialised),
            specialised=self.specialised, names=self.names, keep=tuple(self._crops),
        )  # fmt: skip

    def _resolve_widths(self, regions: Mapping[Func | Input, Region]) -> bool:
        """Set the widths of exact integers in every stage; return whether any changed."""
        changed = False
        for func in self.pipeline.funcs:
            if func not in regions or is_empty(regions[func]):
                continue
            shell = self._shell(func, regions[func])
            stages = list(self.stages[func])
            for k, s in enumerate(stages):
                ranges = loop_ranges(s.stage, shell, regions[func])
                resolved = resolve_integer_widths(func, s.definition, ranges)
                if resolved is not None:
                    stages[k], changed = self._analysed(func, k, resolved), True
            self.stages[func] = tuple(stages)
            self.fixed[func] = self._fixed(func)
        return changed

    def _cropped_outputs(self, funcs: dict[str, BoundFunc], boxes: Mapping[Func, Box]) -> dict[str, str]:
        """Add a copying Func for each output whose region is larger than the returned box."""
        cropped: dict[str, str] = {}
        for f, box in boxes.items():
            name = self.names[id(f)]
            if funcs[name].region == box:
                continue
            copy = Func(_free_name(f"{name}_cropped", funcs, self.shapes, {p.name: p for p in self.pipeline.params}))
            copy[f.vars] = f[f.vars]
            self.names[id(copy)] = copy.name
            self.stages[copy] = (self._stage(copy, 0),)
            self.fixed[copy] = (None,) * f.ndim
            self._crops.append(copy)
            whole = funcs[name]
            readers = whole.consumers if is_empty(box) else (*whole.consumers, copy.name)
            funcs[name] = replace(whole, is_output=False, consumers=readers)
            funcs[copy.name] = self._shell(copy, box, is_output=True)
            cropped[name] = copy.name
        return cropped

    def _shell(self, func: Func, region: Region, is_output: bool = False, consumers: tuple[str, ...] = ()) -> BoundFunc:
        stages = tuple(s.stage for s in self.stages[func])
        if is_empty(region):
            stages = tuple(replace(s, skipped=True) for s in stages)
        return BoundFunc(
            name=self.names[id(func)], dims=func.dims, dtypes=func.dtypes,
            stages=stages, region=region, fixed=self._whole.get(func, self.fixed[func]),
            is_output=is_output, undefined=not func.definitions[0].values, consumers=consumers, boundary=func.boundary,
            within=self.within.get(func, ()),
        )  # fmt: skip

    def _check_region(self, s: DefinedStage, source: Func, region: Region) -> None:
        """Raise for a region so large that an index has no useful range."""
        if all(hi - lo < LARGEST_INDEX for lo, hi in region):
            return
        for e in (e for load in s.loads if load.source is source for e in load.indices):
            i = to_index(e, s.stage.memo)
            lo, hi = ix.interval(i)
            if _reads_data(i) and hi - lo >= LARGEST_INDEX:
                self._refuse_data(s, i, source)
        if any(hi - lo >= LARGEST_EXTENT for lo, hi in region):
            raise BoundsError(
                f"stage {s.stage.func!r} needs {source.name!r} over {region}: too large", location=s.stage.location
            )

    def _refuse_data(self, s: DefinedStage, i: ix.Index, source: Func) -> NoReturn:
        """Raise for an index into a Func whose range is about as large as that of its type."""
        accesses = (s.stage.indices, *(load.indices for load in s.loads if load.source is source))
        e = next(e for at in accesses for e in at if ix.key(to_index(e, s.stage.memo)) == ix.key(i))
        lo, hi = ix.interval(i)
        raise BoundsError(
            f"stage {s.stage.func!r}: index {self.as_written(e)!r} into {source.name!r} depends on data and has no "
            f"useful range: it reaches [{lo}, {hi}]",
            location=s.stage.location,
            hint=BOUND_IT,
        )

    def _report_read(self, i: Input, regions: Mapping[Func | Input, Region]) -> None:
        for f in (f for f in self.pipeline.funcs if f in regions and not is_empty(regions[f])):
            for s in self.stages[f]:
                if s.stage.is_empty:
                    continue
                env = loop_ranges(s.stage, self._shell(f, regions[f]), regions[f])
                for load in (x for x in s.loads if x.source is i):
                    for axis, e in enumerate(load.indices):
                        lo, hi = ix.bounds(to_index(e, s.stage.memo), env)
                        n = self.shapes[i.name][axis]
                        if lo < 0 or hi >= n:
                            raise BoundsError(
                                f"stage {s.stage.func!r} reads input {i.name!r} out of range: index "
                                f"{self.as_written(e)!r} in dimension "
                                f"{axis} ({i.dims[axis]}) reaches [{lo}, {hi}], but the input "
                                + (f"has [0, {n - 1}]" if n else "is empty there"),
                                location=s.stage.location,
                                hint=f"give {i.name} a boundary condition ({i.name}.clamped()), clamp the index, "
                                "compare it with both ends in a select, or shrink the output box (over)",
                            )


class NarrowBinder(Binder):
    """Binds indices with the ranges of coordinates: converts those of each Func again after its region is inferred.

    A typed operation is exact where it cannot wrap within the region, as ``cast(uint32, x)`` without negative
    coordinates. A bitwise operation such as ``x ^ 1`` has the range of its operands.
    """

    def narrow(self, func: Func, region: Region) -> None:
        """Convert the indices of a Func for coordinates of a region."""
        near = dict(zip(func.dims, region, strict=True))
        self._near[func] = near
        self.stages[func] = tuple(self._analysed(func, k, s.definition) for k, s in enumerate(self.stages[func]))
        self.fixed[func] = self._fixed(func)


def _is_bare(e: Expr, memo: Mapping[int, ix.Index]) -> bool:
    """Whether the range of an operation, opaque to indices, depends on the ranges of coordinates."""
    if not isinstance(e, Binary | Unary | Cast) or id(e) not in memo:
        return False
    terms = ix.terms_of(memo[id(e)])
    opaque = len(terms) == 1 and isinstance(terms[0][0], ix.Atom) and terms[0][0].payload is e
    shifted = isinstance(e, Binary) and e.op == "shl"
    return opaque and (
        shifted or any(v.lo <= -ix.UNBOUNDED for c in index_operands(e) for v in ix.loop_vars(memo[id(c)]).values())
    )


def _self_reads(s: DefinedStage, dims: Sequence[str]) -> list[tuple[int, str, ix.Index]]:
    """Return the indices of an update's self-reads, each with position and name of its dimension."""
    if not s.stage.is_update or s.stage.is_empty:
        return []
    self_reads = (f for f in s.stage.footprints if f.source == s.stage.func)
    return [(axis, dim, i) for f in self_reads for axis, dim in enumerate(dims) for i in f.dims[axis]]


def _is_beside(s: DefinedStage, axis: int, dim: str, i: ix.Index) -> bool:
    """Whether an update over all points of a dimension also reads points other than the written one."""
    return ix.key(i) != f"({dim})" and s.stage.is_update and ix.key(s.indices[axis]) == f"({dim})"


def _unordered(name: str, dim: str, d: Definition) -> DSLError:
    return DSLError(
        f"update of {name!r} reads itself at other points of dimension {dim!r} that it may write in the same step: "
        f"iterations of the Var {dim!r} have no order",
        location=d.location,
        hint="let each such read lie in an earlier iteration of a reduction loop, as in f[r.y, x] = f[r.y - 1, x + 1], "
        f"or iterate over {dim} with a reduction domain instead of the Var",
    )


def _reads_data(i: ix.Index) -> bool:
    """Whether an index depends on data whose type is too wide to bound it."""
    return any(
        isinstance(t, ix.Atom) and t.kind == "data" and t.interval[1] - t.interval[0] >= LARGEST_INDEX
        for t in ix.atoms(i)
    )


def _check_vars(s: DefinedStage, i: ix.Index) -> None:
    """Raise for an index of an update that depends on a Var without a range."""
    unbounded = [v.name for v in ix.loop_vars(i).values() if v.lo <= -ix.UNBOUNDED]
    if unbounded:
        raise BoundsError(
            f"stage {s.stage.func!r}: an index of the update depends on Var {unbounded[0]!r} of another dimension, so "
            "its region is unbounded",
            location=s.stage.location,
            hint=f"iterate over {unbounded[0]} with a reduction domain instead",
        )


def _check_size(func: BoundFunc, f: Func) -> None:
    total = max(d.bytes_ for d in func.dtypes)
    for n in func.extents:
        total *= n
    if total >= MOST_BYTES:
        raise BoundsError(f"{func.name!r} is needed over {func.region}: too large", location=f.location)


def _check_iterations(func: BoundFunc, stage: BoundStage) -> None:
    """Raise for a stage with more than `MOST_ITERATIONS` iterations."""
    pure = dict(zip(func.dims, func.extents, strict=True))
    extents = {d.name: d.extent if d.reduction else pure[d.name] for d in stage.loops}
    if prod(extents.values()) > MOST_ITERATIONS:
        loops = ", ".join(f"{name} of {n}" for name, n in extents.items())
        raise BoundsError(
            f"stage {stage.func!r} has more than {MOST_ITERATIONS} iterations: {loops}", location=stage.location,
            hint="use smaller inputs, domains or reductions",
        )  # fmt: skip


def _constant(i: ix.Index) -> int:
    return i.const if isinstance(i, ix.Affine) else i


def _free_name(name: str, *taken: Mapping[str, object]) -> str:
    while any(name in t for t in taken):
        name += "_"
    return name


def _pure_names(indices: Sequence[Expr]) -> set[str]:
    return {i.name for i in indices if isinstance(i, Var)}


def loads_of(roots: Sequence[Expr]) -> list[Load]:
    """Return the reads in some expressions, those in indices of others included."""
    seen: dict[int, Load] = {}
    for root in roots:
        for node in walk(root):
            if isinstance(node, Load):
                seen.setdefault(id(node), node)
    return list(seen.values())
