"""Cache reads: copies of a kernel's operands, which a schedule places in shared memory to load each element once.

    out[x] = f(a[x], a[x + 1])   ->   a.staged[x] = a[x];  out[x] = f(a.staged[x], a.staged[x + 1])

No pipeline of a user declares the copy; it exists for the kernels whose schedules cache ``a``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from autosched.analysis.bound_pipeline import AccessFootprint, BoundFunc, BoundPipeline, BoundStage, Box, LoopDim
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.to_index import to_index
from autosched.analysis.rewrites.rewrite import CacheRead, apply, build
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input

STAGED = ".staged"
"""Suffix of the name of a copy; names of Funcs have no dots."""


def cache_name(source: str) -> str:
    """Return the name of the copy of an input or Func."""
    return source + STAGED


def cached_source(name: str) -> str | None:
    """Return the source of a copy, None for other Funcs."""
    return name.removesuffix(STAGED) if name.endswith(STAGED) else None


def insert_cache_reads(bound: BoundPipeline, sources: Iterable[str]) -> BoundPipeline:
    """Return the pipeline in which all consumers of some inputs and Funcs read copies of these.

    Names that the pipeline lacks, or has copies of, are ignored. The same sources give the same object.
    """
    cached = frozenset(
        s for s in sources if (s in bound.inputs or s in bound.funcs) and cache_name(s) not in bound.funcs
    )
    return apply(bound, CacheRead(cached)) if cached else bound


@build.register
def _build(rewrite: CacheRead, bound: BoundPipeline) -> BoundPipeline:
    objects = {bound.names[id(s)]: s for s in _sources(bound)}
    order = [name for name in (*bound.inputs, *bound.funcs) if name in rewrite.sources]
    copies = {name: _copy(objects[name], cache_name(name)) for name in order}
    funcs: dict[str, BoundFunc] = {}
    for name in (*bound.inputs, *bound.funcs):
        if name in bound.funcs:
            cached = [s for s in order if s != name]
            renamed = {id(objects[s]): cache_name(s) for s in cached}
            names = {s: cache_name(s) for s in cached}
            func = bound.funcs[name]
            stages = tuple(_reading_copies(s, renamed, names) for s in func.stages)
            funcs[name] = replace(func, stages=stages)
        if name in copies:
            funcs[cache_name(name)] = _bound_copy(bound, copies[name], name)
            if name in bound.funcs:
                funcs[name] = replace(funcs[name], consumers=(cache_name(name),))
    names_by_id = {**bound.names, **{id(copy): cache_name(name) for name, copy in copies.items()}}
    return replace(bound, funcs=funcs, names=names_by_id, keep=(*bound.keep, *copies.values()))


def _sources(bound: BoundPipeline) -> list[Func | Input]:
    return [*bound.pipeline.inputs, *bound.pipeline.funcs, *(f for f in bound.keep if isinstance(f, Func))]


def _copy(source: Func | Input, name: str) -> Func:
    copy = Func(name.replace(".", "_"))
    at = tuple(Var(dim) for dim in source.dims)
    copy[at] = source[at]
    return copy


def _reading_copies(stage: BoundStage, renamed: Mapping[int, str], names: Mapping[str, str]) -> BoundStage:
    """Return a stage that reads copies; ``renamed`` has their names by id of the source, ``names`` by its name."""
    if not any(f.source in names for f in stage.footprints):
        return stage
    footprints = tuple(replace(f, source=names.get(f.source, f.source)) for f in stage.footprints)
    return replace(stage, footprints=footprints, names={**stage.names, **renamed})


def _bound_copy(bound: BoundPipeline, copy: Func, name: str) -> BoundFunc:
    """Return the bound copy of a source over its whole region."""
    source = bound.funcs.get(name)
    whole: Box = tuple((0, n - 1) for n in bound.inputs[name].shape) if source is None else source.region
    readers = tuple(f.name for f in bound.funcs.values() if any(name in s.sources for s in f.stages) and f.name != name)
    (definition,) = copy.definitions
    memo: dict[int, ix.Index] = {}
    at = tuple(to_index(i, memo) for i in definition.indices)
    stage = BoundStage(
        func=cache_name(name),
        number=0,
        loops=tuple(LoopDim(d, False, True) for d in copy.dims),
        store=at,
        indices=definition.indices,
        values=definition.values,
        footprints=(AccessFootprint(name, tuple((i,) for i in at)),),
        associative=False,
        owns_point=True,
        location=None,
        memo=memo,
        names=dict(bound.names),
    )
    return BoundFunc(
        name=cache_name(name), dims=copy.dims, dtypes=copy.dtypes, stages=(stage,), region=whole,
        fixed=(None,) * len(whole), is_output=False, undefined=False, consumers=readers,
    )  # fmt: skip
