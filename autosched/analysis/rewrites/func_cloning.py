"""Clones of Funcs: some consumers of a Func read a copy of it, which a schedule places where they are computed.

    g[x] = f[x - 1] + f[x];  h[x] = f[2*x]   ->   f_clone = f;  g[x] = f_clone[x - 1] + f_clone[x];  h[x] = f[2*x]

A schedule computes each Func in one place. With a copy, `f` may be computed in the kernel of `g` and again in that of
`h` (Halide's `Func::clone_in`). A copy covers what its consumers read, and a Func without consumers vanishes unless it
is an output. Results do not change.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import reduce

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import FuncClone
from autosched.analysis.rewrites.rebuild import (
    Replacement,
    fresh_name,
    is_defined,
    rebuild_consumer,
    rebuild_pipeline,
    rewrite_history,
)
from autosched.analysis.rewrites.rewrite import apply, build
from autosched.errors import ScheduleError
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import producers_of

_SUFFIX = "_clone"


def clone_funcs(bound: BoundPipeline, clones: Sequence[FuncClone]) -> BoundPipeline:
    """Return the pipeline with copies of Funcs; the same clones give the same object.

    Args:
        bound: The pipeline, with all other rewrites. Its own clones are replaced.
        clones: The clones, in the order of their application.

    Raises:
        ScheduleError: If a Func cannot be cloned so, see `clone_error`.
    """
    rewritten = bound.rewritten
    return reduce(apply, clones, rewritten.before_clones or rewritten)


def clone_error(bound: BoundPipeline, clone: FuncClone) -> str:
    """Return the reason why a Func cannot be cloned for these consumers; empty if it can."""
    if clone.func in bound.inputs:
        return f"{clone.func} is an input, which no kernel computes; a cache read copies it"
    if clone.func not in bound.funcs or not is_defined(bound, clone.func):
        return f"there is no Func {clone.func!r}"
    if not clone.consumers or len(set(clone.consumers)) < len(clone.consumers):
        return f"a clone of {clone.func} names at least one consumer, each once"
    readers = consumers_of(bound, clone.func)
    for name in clone.consumers:
        if name not in readers:
            names = f"the Funcs that do are {', '.join(readers)}" if readers else "no Func does"
            return f"{name} does not read {clone.func}; {names}"
    return ""


def consumers_of(bound: BoundPipeline, func: str) -> tuple[str, ...]:
    """Return the Funcs that may read a copy of a Func: its consumers, without the copy that an output returns."""
    return tuple(name for name in bound.funcs[func].consumers if name != func and is_defined(bound, name))


def clone_name(func: str, taken: Collection[str]) -> str:
    """Return the name of the next copy of a Func, given the names of the pipeline's Funcs and inputs."""
    return fresh_name(func + _SUFFIX, taken)


def originals(bound: BoundPipeline) -> dict[str, str]:
    """Return the Func that each copy is a copy of, directly or through other copies."""
    result: dict[str, str] = {}
    for k, clone in enumerate(bound.clones):
        before = clone_funcs(bound, bound.clones[:k])
        result[clone_name(clone.func, {*before.funcs, *before.inputs})] = result.get(clone.func, clone.func)
    return result


@build.register
def _build(clone: FuncClone, bound: BoundPipeline) -> BoundPipeline:
    problem = clone_error(bound, clone)
    if problem:
        raise ScheduleError(f"{problem}: remove this clone, or make a new schedule")
    old = bound.pipeline.func(clone.func)
    copy = rebuild_consumer(old, {}, clone_name(clone.func, {*bound.funcs, *bound.inputs}))
    replaced: dict[Func | Input, Replacement] = {}
    for f in bound.pipeline.funcs:  # producers first
        name = bound.pipeline.name_of(f)
        sources = {**replaced, old: Replacement(copy)} if name in clone.consumers else replaced
        if any(p in sources for p in producers_of(f) if p is not f):
            replaced[f] = Replacement(rebuild_consumer(f, sources, name))
    rebuilt = rebuild_pipeline(bound, replaced)
    before = bound.before_clones or bound
    history = rewrite_history(before) | {
        "before_rfactor": before.before_rfactor or before,
        "before_clones": before,
        "clones": (*bound.clones, clone),
    }
    return replace(rebuilt.bound, fused_arrays=rebuilt.arrays_of(bound) if bound.fused_arrays else (), **history)
