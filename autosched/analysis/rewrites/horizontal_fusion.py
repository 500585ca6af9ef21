"""Funcs computed together: several pure Funcs over one region become one with as many values at each point.

The threads of a kernel then compute all of them, so that what they read alike is read once, and what they compute alike
is computed once. A Func may read another one that it is joined with at its own point: that value is at hand. A pipeline
with joined Funcs is again a pipeline, which what comes after need not know. It is made for a schedule that asks for
it; no user's pipeline declares it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from autosched.analysis.bound_pipeline import BoundPipeline, HorizontalFusion
from autosched.analysis.rewrites.rebuild import Replacement, fresh_name, rebuild_pipeline
from autosched.analysis.rewrites.rewrite import apply, build
from autosched.errors import ScheduleError
from autosched.lang.expr import Expr, Load, Var, children, postorder, rebuild, walk
from autosched.lang.func import Definition, Func, Input

MOST_VALUES = 16
"""Values that a joined Func has at most at each point: more than a few are more than a thread's registers hold."""
LONGEST_NAME = 40


def fuse_outputs(bound: BoundPipeline, joins: Sequence[HorizontalFusion]) -> BoundPipeline:
    """Return the pipeline in which Funcs are joined, one join after the other.

    Args:
        bound: A pipeline; of one with joined Funcs, the one without them is taken.
        joins: What to join. The same joins give the same object.

    Raises:
        ScheduleError: If Funcs cannot be joined, see `fusion_error`.
    """
    return reduce(apply, joins, bound.before_fusion or bound)


def fusion_error(bound: BoundPipeline, join: HorizontalFusion) -> str:
    """Return why Funcs cannot be computed together, or nothing."""
    declared = {bound.names[id(f)] for f in bound.pipeline.funcs}
    for name in join.funcs:
        if name not in declared or name not in bound.funcs:
            return f"there is no Func {name!r} to join"
        func = bound.funcs[name]
        if not func.is_pure or func.undefined or func.boundary:
            return f"{name} has updates or a boundary condition; only Funcs with one definition can be joined"
        if name in bound.outputs and bound.outputs[name] != name:
            return f"of output {name} more is computed than returned, so it cannot be joined"
    if len(set(join.funcs)) < max(len(join.funcs), 2):
        return "a join names at least two Funcs, each once"
    first = bound.funcs[join.funcs[0]]
    if sum(len(bound.funcs[name].dtypes) for name in join.funcs) > MOST_VALUES:
        return f"{', '.join(join.funcs)} have more than {MOST_VALUES} values at each point together"
    for name in join.funcs[1:]:
        if bound.funcs[name].region != first.region:
            return f"{name} is computed over {bound.funcs[name].region}, but {first.name} over {first.region}"
        if bound.funcs[name].is_output != first.is_output:
            return f"of {first.name} and {name} only one is returned, and their arrays are laid out differently"
    return _order_error(bound, join)


def _order_error(bound: BoundPipeline, join: HorizontalFusion) -> str:
    """Return which Func would be needed before it is computed, or nothing."""
    own = {bound.pipeline.func(name) for name in join.funcs}
    after: set[Func] = set()  # Funcs outside that read joined ones
    for f in bound.pipeline.funcs:
        read = [n for e in f.definitions[0].values for n in _loads(e)] if f in own else []
        for load in read:
            if load.source in own and not _at_own_point(load, f):
                return f"{bound.names[id(f)]} reads {bound.names[id(load.source)]} at other points than its own"
        sources = {s for d in f.definitions for e in (*d.indices, *d.values) for s in (n.source for n in _loads(e))}
        late = sources & after
        if f in own and late:
            between = bound.names[id(next(iter(late)))]
            return f"{bound.names[id(f)]} needs {between}, which needs a Func that it would be joined with"
        if f not in own and (late or sources & own):
            after.add(f)
    return ""


@build.register
def _build(join: HorizontalFusion, bound: BoundPipeline) -> BoundPipeline:
    problem = fusion_error(bound, join)
    if problem:
        raise ScheduleError(f"{problem}: leave this join out, or make a new schedule")
    wanted = {bound.pipeline.func(name) for name in join.funcs}
    members = [f for f in bound.pipeline.funcs if f in wanted]  # producers first
    joined = Func(fresh_name(_name(join), {*bound.funcs, *bound.inputs}))
    joined.location = members[0].location
    stands: dict[Func | Input, Replacement] = {}
    values: dict[Func, tuple[Expr, ...]] = {}
    for f in members:
        stands[f] = Replacement(joined, sum(map(len, values.values())))
        values[f] = _values(f, members[0].vars, values)
    joined._dtypes = tuple(d for f in members for d in f.dtypes)
    point = members[0].definitions[0].indices
    together = tuple(v for f in members for v in values[f])
    joined._definitions.append(Definition(point, together, (), joined.location))
    found = rebuild_pipeline(bound, stands)
    arrays = [(array, *found.returned[func], k) for array, func, k in bound.output_components]
    unfused = bound.before_fusion or bound
    return replace(
        found.bound,
        before_rfactor=unfused.before_rfactor or unfused,
        rfactors=unfused.rfactors,
        before_fusion=unfused,
        fusions=(*bound.fusions, join),
        fused_arrays=tuple((array, func, first + k) for array, func, first, k in arrays),
    )


def _values(f: Func, point: tuple[Var, ...], known: dict[Func, tuple[Expr, ...]]) -> tuple[Expr, ...]:
    """Return the values of a Func at a point of the Func that it is joined to; it may read values that are known."""
    table = dict(zip(f.dims, point, strict=True))
    done: dict[int, Expr] = {}
    for node in postorder(f.definitions[0].values, done):
        if isinstance(node, Var):
            done[id(node)] = table[node.name]
        elif isinstance(node, Load) and node.source in known:
            done[id(node)] = known[node.source][node.component]
        else:
            done[id(node)] = rebuild(node, [done[id(c)] for c in children(node)])
    return tuple(done[id(v)] for v in f.definitions[0].values)


def _loads(e: Expr) -> list[Load]:
    return [n for n in walk(e) if isinstance(n, Load)]


def _at_own_point(load: Load, f: Func) -> bool:
    return [i.name if isinstance(i, Var) else None for i in load.indices] == list(f.dims)


def _name(join: HorizontalFusion) -> str:
    whole = "_".join(join.funcs)
    return whole if len(whole) <= LONGEST_NAME else f"{join.funcs[0]}_and_{len(join.funcs) - 1}_more"
