"""Horizontal fusion: several pure Funcs over one region become one tuple-valued Func.

    gx[y, x] = f(a[y, x]);  gy[y, x] = g(a[y, x])   ->   gx_gy[y, x] = (f(a[y, x]), g(a[y, x]))

Each thread of a kernel computes all values of a point, so common loads and subexpressions are shared. A fused Func may
read another one of the group at its own point. The result is an ordinary pipeline, made for the schedules that contain
the fusion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import HorizontalFusion
from autosched.analysis.rewrites.rebuild import Replacement, fresh_name, rebuild_pipeline, rewrite_history
from autosched.analysis.rewrites.rewrite import apply, build
from autosched.errors import ScheduleError
from autosched.lang.expr import Expr, Load, Var, children, postorder, rebuild, walk
from autosched.lang.func import Definition, Func, Input

MOST_VALUES = 16
"""Limit of the values of a fused Func at each point, which occupy registers of one thread."""
LONGEST_NAME = 40
"""Length of the name of a fused Func beyond which it is abbreviated."""


def fuse_outputs(bound: BoundPipeline, fusions: Sequence[HorizontalFusion]) -> BoundPipeline:
    """Return the pipeline with fused Funcs; the same fusions give the same object.

    Args:
        bound: The pipeline. Its own fusions and later rewrites are replaced.
        fusions: The fusions, in the order of their application.

    Raises:
        ScheduleError: If Funcs cannot be fused, see `fusion_error`.
    """
    return reduce(apply, fusions, bound.before_fusion or bound.before_clones or bound)


def fusion_error(bound: BoundPipeline, fusion: HorizontalFusion) -> str:
    """Return the reason why Funcs cannot be fused; empty if they can."""
    declared = {bound.names[id(f)] for f in bound.pipeline.funcs}
    for name in fusion.funcs:
        if name not in declared or name not in bound.funcs:
            return f"there is no Func {name!r} to fuse"
        func = bound.funcs[name]
        if not func.is_pure or func.undefined or func.boundary:
            return f"{name} has updates or a boundary condition; only Funcs with one definition can be fused"
        if name in bound.outputs and bound.outputs[name] != name:
            return f"output {name} is computed over a larger region than its box, so it cannot be fused"
    if len(set(fusion.funcs)) < max(len(fusion.funcs), 2):
        return "a horizontal fusion names at least two Funcs, each once"
    first = bound.funcs[fusion.funcs[0]]
    if sum(len(bound.funcs[name].dtypes) for name in fusion.funcs) > MOST_VALUES:
        return f"{', '.join(fusion.funcs)} have more than {MOST_VALUES} values at each point in total"
    for name in fusion.funcs[1:]:
        if bound.funcs[name].region != first.region:
            return f"{name} is computed over {bound.funcs[name].region}, but {first.name} over {first.region}"
        if bound.funcs[name].is_output != first.is_output:
            return f"only one of {first.name} and {name} is an output; outputs and temporaries differ in layout"
    return _order_error(bound, fusion)


def _order_error(bound: BoundPipeline, fusion: HorizontalFusion) -> str:
    """Return the dependence that a fusion would violate; empty if there is none."""
    fused = {bound.pipeline.func(name) for name in fusion.funcs}
    after: set[Func] = set()  # other Funcs that depend on fused ones
    for f in bound.pipeline.funcs:
        read = [n for e in f.definitions[0].values for n in _loads(e)] if f in fused else []
        for load in read:
            if load.source in fused and not _at_own_point(load, f):
                return f"{bound.names[id(f)]} reads {bound.names[id(load.source)]} at other points than its own"
        sources = {s for d in f.definitions for e in (*d.indices, *d.values) for s in (n.source for n in _loads(e))}
        late = sources & after
        if f in fused and late:
            between = bound.names[id(next(iter(late)))]
            return f"{bound.names[id(f)]} depends on {between}, which depends on a Func of the same fusion"
        if f not in fused and (late or sources & fused):
            after.add(f)
    return ""


@build.register
def _build(fusion: HorizontalFusion, bound: BoundPipeline) -> BoundPipeline:
    problem = fusion_error(bound, fusion)
    if problem:
        raise ScheduleError(f"{problem}: remove this fusion, or make a new schedule")
    named = {bound.pipeline.func(name) for name in fusion.funcs}
    parts = [f for f in bound.pipeline.funcs if f in named]  # producers first
    fused = Func(fresh_name(_name(fusion), {*bound.funcs, *bound.inputs}))
    fused.location = parts[0].location
    replacements: dict[Func | Input, Replacement] = {}
    values: dict[Func, tuple[Expr, ...]] = {}
    for f in parts:
        replacements[f] = Replacement(fused, sum(map(len, values.values())))
        values[f] = _values(f, parts[0].vars, values)
    fused._dtypes = tuple(d for f in parts for d in f.dtypes)
    point = parts[0].definitions[0].indices
    components = tuple(v for f in parts for v in values[f])
    fused._definitions.append(Definition(point, components, (), fused.location))
    rebuilt = rebuild_pipeline(bound, replacements)
    unfused = bound.before_fusion or bound
    history = rewrite_history(unfused) | {
        "before_rfactor": unfused.before_rfactor or unfused,
        "before_fusion": unfused,
        "fusions": (*bound.fusions, fusion),
    }
    return replace(rebuilt.bound, fused_arrays=rebuilt.arrays_of(bound), **history)


def _values(f: Func, point: tuple[Var, ...], fused: dict[Func, tuple[Expr, ...]]) -> tuple[Expr, ...]:
    """Return the values of a Func at a point of the fused Func; reads of ``fused`` Funcs become their values."""
    table = dict(zip(f.dims, point, strict=True))
    done: dict[int, Expr] = {}
    for node in postorder(f.definitions[0].values, done):
        if isinstance(node, Var):
            done[id(node)] = table[node.name]
        elif isinstance(node, Load) and node.source in fused:
            done[id(node)] = fused[node.source][node.component]
        else:
            done[id(node)] = rebuild(node, [done[id(c)] for c in children(node)])
    return tuple(done[id(v)] for v in f.definitions[0].values)


def _loads(e: Expr) -> list[Load]:
    return [n for n in walk(e) if isinstance(n, Load)]


def _at_own_point(load: Load, f: Func) -> bool:
    return [i.name if isinstance(i, Var) else None for i in load.indices] == list(f.dims)


def _name(fusion: HorizontalFusion) -> str:
    whole = "_".join(fusion.funcs)
    return whole if len(whole) <= LONGEST_NAME else f"{fusion.funcs[0]}_and_{len(fusion.funcs) - 1}_more"
