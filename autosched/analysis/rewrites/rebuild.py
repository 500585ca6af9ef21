"""Pipelines that compute the same from other Funcs, as schedules ask for."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lang.dtypes import int32
from autosched.lang.expr import Const, Expr, Load, children, postorder, rebuild
from autosched.lang.func import Definition, Func, Input, Output, source_of
from autosched.lang.pipeline import Pipeline, producers_of


class Replacement(NamedTuple):
    """What is read in place of a Func: another, whose components from ``first`` on are those of the old one."""

    func: Func
    first: int = 0


@dataclass(frozen=True)
class RebuiltPipeline:
    """A pipeline in which some Funcs are read from others.

    Attributes:
        bound: The pipeline, for the same shapes and parameters as before.
        returned: For each Func that held an output, by its name before: the Func that holds it now, and the number of
            its first component there.
    """

    bound: BoundPipeline
    returned: Mapping[str, tuple[str, int]]


def rebuild_pipeline(bound: BoundPipeline, replaced: Mapping[Func | Input, Replacement]) -> RebuiltPipeline:
    """Return the pipeline in which some Funcs are read from others; what reads those Funcs is made anew."""
    stands = dict(replaced)
    for f in bound.pipeline.funcs:
        if f not in stands and any(p in stands for p in producers_of(f)):
            stands[f] = Replacement(_reading(f, stands))
    outputs: dict[Func, Output] = {}
    for o in bound.pipeline.outputs:
        region = bound.funcs[bound.outputs[bound.names[id(o.func)]]].region
        box = o.box or tuple((_integer(lo), _integer(hi + 1)) for lo, hi in region)
        func = stands[o.func].func if o.func in stands else o.func
        outputs.setdefault(func, Output(func, box))
    pipeline = Pipeline(list(outputs.values()), bound.pipeline.name)
    # An input or parameter that only said how long a loop is has gone; the caller passes it as before.
    shapes = {i.name: bound.shapes[i.name] for i in pipeline.inputs}
    params = {p.name: bound.specialised[p.name] for p in pipeline.params if p.name in bound.specialised}
    view = bind(pipeline, shapes, params)
    view = replace(
        view, shapes=bound.shapes, inputs=bound.inputs, specialised=bound.specialised, scalars=bound.scalars,
        names={**{id(i): i.name for i in bound.pipeline.inputs}, **view.names},
    )  # fmt: skip
    returned = {}
    for o in bound.pipeline.outputs:
        now = stands.get(o.func, Replacement(o.func))
        returned[bound.outputs[bound.names[id(o.func)]]] = view.outputs[view.names[id(now.func)]], now.first
    return RebuiltPipeline(view, returned)


def _reading(func: Func, stands: Mapping[Func | Input, Replacement]) -> Func:
    """Return a Func that reads other Funcs in place of some."""
    new = Func(func.name)
    new.location = func.location
    new._dtypes = func.dtypes
    new.atomic = func.atomic
    new.boundary, new.boundary_ranges = func.boundary, func.boundary_ranges
    sources = {**stands, func: Replacement(new)}
    new._definitions.extend(with_replaced_reads(d, sources) for d in func.definitions)
    return new


def with_replaced_reads(d: Definition, stands: Mapping[Func | Input, Replacement]) -> Definition:
    """Return a definition that reads other Funcs in place of some."""
    done: dict[int, Expr] = {}
    indices = tuple(_moved(e, stands, done) for e in d.indices)
    return Definition(indices, tuple(_moved(e, stands, done) for e in d.values), d.rvars, d.location)


def _moved(e: Expr, stands: Mapping[Func | Input, Replacement], done: dict[int, Expr]) -> Expr:
    for node in postorder([e], done):
        new: Sequence[Expr] = [done[id(c)] for c in children(node)]
        if isinstance(node, Load) and node.source in stands:
            stand = stands[source_of(node)]
            done[id(node)] = Load(stand.func, tuple(new), node.dtype, stand.first + node.component)
        else:
            done[id(node)] = rebuild(node, new)
    return done[id(e)]


def fresh_name(name: str, taken: Collection[str]) -> str:
    """Return a name, with a number if it is taken."""
    return next(n for n in itertools.chain([name], (f"{name}{k}" for k in itertools.count(2))) if n not in taken)


def _integer(value: int) -> Const:
    return Const(value, int32, weak=True)
