"""Equal pipelines in which other Funcs replace some."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from autosched.analysis.access.accumulation import Accumulation, accumulation
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lang.dtypes import int32
from autosched.lang.expr import Const, Expr, Load, Var, children, postorder, rebuild, walk
from autosched.lang.func import Definition, Func, Input, Output, source_of
from autosched.lang.pipeline import Pipeline, producers_of

_HISTORY = (
    "windows", "scans", "deinterleavings", "hoistings", "unrollings", "narrowings", "rfactors", "statements",
    "fissions", "fusions", "clones", "before_windows", "before_scans", "before_deinterleaving", "before_hoisting",
    "before_unrolling", "before_narrowing", "before_rfactor", "before_statements", "before_fission", "before_fusion",
    "before_clones",
)  # fmt: skip
"""Fields of a pipeline with its rewrites, and the pipelines before them."""


class Replacement(NamedTuple):
    """Replacement of a Func: another Func, whose components from ``first`` on equal those of the old one.

    A split Func has several: ``components`` has a Func and a component of it for each component of the old one.
    """

    func: Func
    first: int = 0
    components: tuple[tuple[Func, int], ...] = ()

    def of(self, component: int) -> tuple[Func, int]:
        """Return the new Func and its component that replace a component of the old Func."""
        return self.components[component] if self.components else (self.func, self.first + component)

    @property
    def funcs(self) -> tuple[Func, ...]:
        """All new Funcs, in the order of the old components."""
        return tuple(dict.fromkeys(func for func, _ in self.components)) or (self.func,)


@dataclass(frozen=True)
class RebuiltPipeline:
    """A pipeline in which other Funcs replace some.

    Attributes:
        bound: The pipeline, for the same shapes and parameters.
        returned: For each component of each output Func, by its old name: the new Func, and its component there.
    """

    bound: BoundPipeline
    returned: Mapping[tuple[str, int], tuple[str, int]]

    def arrays_of(self, old: BoundPipeline) -> tuple[tuple[str, str, int], ...]:
        """Return `BoundPipeline.output_components` of the pipeline, under the names of the old one."""
        return tuple((array, *self.returned[func, k]) for array, func, k in old.output_components)


def rewrite_history(bound: BoundPipeline) -> dict[str, Any]:
    """Return the fields of a pipeline that tell its rewrites, for a pipeline that is rewritten once more."""
    return {name: getattr(bound, name) for name in _HISTORY}


def rebuild_pipeline(bound: BoundPipeline, replaced: Mapping[Func | Input, Replacement]) -> RebuiltPipeline:
    """Return the pipeline in which other Funcs replace some; their consumers are rebuilt."""
    replacements = dict(replaced)
    for f in bound.pipeline.funcs:
        if f not in replacements and any(p in replacements for p in producers_of(f)):
            replacements[f] = Replacement(rebuild_consumer(f, replacements))
    outputs: dict[Func, Output] = {}
    for o in bound.pipeline.outputs:
        region = bound.funcs[bound.outputs[bound.names[id(o.func)]]].region
        box = o.box or tuple((_integer(lo), _integer(hi + 1)) for lo, hi in region)
        for func in replacements[o.func].funcs if o.func in replacements else (o.func,):
            outputs.setdefault(func, Output(func, box))
    pipeline = Pipeline(list(outputs.values()), bound.pipeline.name)
    # Inputs and parameters that only determine extents of loops vanish here; callers still pass them.
    shapes = {i.name: bound.shapes[i.name] for i in pipeline.inputs}
    params = {p.name: bound.specialised[p.name] for p in pipeline.params if p.name in bound.specialised}
    rebuilt = bind(pipeline, shapes, params)
    rebuilt = replace(
        rebuilt, shapes=bound.shapes, inputs=bound.inputs, specialised=bound.specialised, scalars=bound.scalars,
        names={**{id(i): i.name for i in bound.pipeline.inputs}, **rebuilt.names},
    )  # fmt: skip
    returned: dict[tuple[str, int], tuple[str, int]] = {}
    for o in bound.pipeline.outputs:
        new = replacements.get(o.func, Replacement(o.func))
        for k in range(len(o.func.dtypes)):
            func, component = new.of(k)
            returned[bound.outputs[bound.names[id(o.func)]], k] = rebuilt.outputs[rebuilt.names[id(func)]], component
    return RebuiltPipeline(rebuilt, returned)


def rebuild_consumer(func: Func, replacements: Mapping[Func | Input, Replacement], name: str = "") -> Func:
    """Return an equal Func that reads the replacements, under its own name if none is given."""
    new = Func(name or func.name)
    new.location = func.location
    new._dtypes = func.dtypes
    new.atomic = func.atomic
    new.boundary, new.boundary_ranges = func.boundary, func.boundary_ranges
    sources = {**replacements, func: Replacement(new)}
    new._definitions.extend(with_replaced_reads(d, sources) for d in func.definitions)
    return new


def with_replaced_reads(d: Definition, replacements: Mapping[Func | Input, Replacement]) -> Definition:
    """Return a definition that reads the replacements."""
    done: dict[int, Expr] = {}
    indices = tuple(_with_replacements(e, replacements, done) for e in d.indices)
    return Definition(indices, tuple(_with_replacements(e, replacements, done) for e in d.values), d.rvars, d.location)


def _with_replacements(e: Expr, replacements: Mapping[Func | Input, Replacement], done: dict[int, Expr]) -> Expr:
    for node in postorder([e], done):
        new: Sequence[Expr] = [done[id(c)] for c in children(node)]
        if isinstance(node, Load) and node.source in replacements:
            source, component = replacements[source_of(node)].of(node.component)
            done[id(node)] = Load(source, tuple(new), node.dtype, component)
        else:
            done[id(node)] = rebuild(node, new)
    return done[id(e)]


def func_of_value(func: Func, value: Expr, name: str) -> Func:
    """Return a Func of a value in a pure definition of ``func``, over the dimensions on which the value depends."""
    new = Func(name)
    new.location, new._dtypes = func.location, (value.dtype,)
    free = {node.name for node in walk(value) if isinstance(node, Var)}
    point = tuple(v for v in func.vars if v.name in free)
    new._definitions.append(Definition(point, (value,), (), func.location))
    return new


def with_values(func: Func, values: Mapping[int, Expr]) -> Func:
    """Return a Func with other expressions in place of some nodes of its definitions, by their ``id``."""
    new = Func(func.name)
    new.location, new._dtypes, new.atomic = func.location, func.dtypes, func.atomic
    for d in func.definitions:
        done: dict[int, Expr] = {}
        for node in postorder([*d.indices, *d.values], done):
            parts = [done[id(c)] for c in children(node)]
            if id(node) in values:
                done[id(node)] = values[id(node)]
            elif isinstance(node, Load) and node.source is func:
                done[id(node)] = Load(new, tuple(parts), node.dtype, node.component)
            else:
                done[id(node)] = rebuild(node, parts)
        indices, new_values = (tuple(done[id(e)] for e in part) for part in (d.indices, d.values))
        new._definitions.append(Definition(indices, new_values, d.rvars, d.location))
    return new


def update_accumulation(bound: BoundPipeline, func: str, stage: int) -> Accumulation | None:
    """Return the accumulation of an update of a Func, None for an update of another form."""
    if not bound.funcs[func].stages[stage].associative:
        return None
    updated = bound.pipeline.func(func)
    return accumulation(updated, updated.definitions[stage])


def is_defined(bound: BoundPipeline, func: str) -> bool:
    """Whether a Func is one of the pipeline's, rather than the copy of an output of which more is computed."""
    return any(bound.pipeline.name_of(f) == func for f in bound.pipeline.funcs)


def fresh_name(name: str, taken: Collection[str]) -> str:
    """Return a name, with a number if it is in ``taken``."""
    return next(n for n in itertools.chain([name], (f"{name}{k}" for k in itertools.count(2))) if n not in taken)


def _integer(value: int) -> Const:
    return Const(value, int32, weak=True)
