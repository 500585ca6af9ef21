"""Fission of components: a tuple-valued Func becomes several Funcs, each with some of its values.

    f[y, x] = (g(a[y, x]), h(b[y, x]))   ->   f_0[y, x] = g(a[y, x]);  f_1[y, x] = h(b[y, x])

Kernels of the parts need fewer registers; what the values share is loaded and computed in each of them (Artemis,
section VI-B, fission of outputs). It is the inverse of `autosched.analysis.rewrites.horizontal_fusion`. Results do not
change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import ComponentFission
from autosched.analysis.rewrites.rebuild import (
    Replacement,
    fresh_name,
    is_defined,
    rebuild_pipeline,
    rewrite_history,
    with_replaced_reads,
)
from autosched.analysis.rewrites.rewrite import apply, build
from autosched.errors import ScheduleError
from autosched.lang.func import Definition, Func, Input
from autosched.lang.pipeline import producers_of


def split_components(bound: BoundPipeline, fissions: Sequence[ComponentFission]) -> BoundPipeline:
    """Return the pipeline with split Funcs; the same fissions give the same object.

    Args:
        bound: The pipeline. Its own fissions and later rewrites are replaced.
        fissions: The fissions, in the order of their application.

    Raises:
        ScheduleError: If a Func cannot be split, see `component_fission_error`.
    """
    rewritten = bound.rewritten
    return reduce(
        apply, fissions, rewritten.before_fission or rewritten.before_fusion or rewritten.before_clones or rewritten
    )


def component_fission_error(bound: BoundPipeline, fission: ComponentFission) -> str:
    """Return the reason why a Func cannot be split; empty if it can."""
    func = bound.funcs.get(fission.func)
    if func is None or not is_defined(bound, fission.func):
        return f"there is no Func {fission.func!r}"
    if not func.is_pure or func.undefined or func.boundary:
        return f"{fission.func} has updates or a boundary condition; only Funcs with one definition can be split"
    if fission.func in bound.outputs and bound.outputs[fission.func] != fission.func:
        return f"output {fission.func} is computed over a larger region than its box, so it cannot be split"
    count = len(func.dtypes)
    if sorted(k for group in fission.groups for k in group) != list(range(count)):
        return f"{fission.func} has {count} values: each of the components 0 to {count - 1} belongs to one group"
    if len(fission.groups) < 2 or not all(fission.groups):
        return f"a fission of {fission.func} needs at least two groups, each with a component"
    return ""


@build.register
def _build(fission: ComponentFission, bound: BoundPipeline) -> BoundPipeline:
    problem = component_fission_error(bound, fission)
    if problem:
        raise ScheduleError(f"{problem}: remove this fission, or make a new schedule")
    old = bound.pipeline.func(fission.func)
    taken = {*bound.funcs, *bound.inputs} - {fission.func}
    replaced: dict[Func | Input, Replacement] = {old: _split(old, fission, fission.func, taken, {})}
    for f in bound.pipeline.funcs:  # a boundary condition has one source, so each part gets its own
        if f.boundary is not None and any(source in replaced for source in producers_of(f)):
            name = bound.pipeline.name_of(f)
            replaced[f] = _split(f, fission, name, taken - {name}, replaced)
    rebuilt = rebuild_pipeline(bound, replaced)
    unsplit = bound.before_fission or bound
    history = rewrite_history(unsplit) | {
        "before_rfactor": unsplit.before_rfactor or unsplit,
        "before_fission": unsplit,
        "fissions": (*bound.fissions, fission),
    }
    return replace(rebuilt.bound, fused_arrays=rebuilt.arrays_of(bound), **history)


def _split(
    func: Func, fission: ComponentFission, name: str, taken: set[str], replaced: dict[Func | Input, Replacement]
) -> Replacement:
    """Return the parts of a Func with one definition, which read the replacements of other Funcs."""
    (definition,) = func.definitions
    components: dict[int, tuple[Func, int]] = {}
    for group in fission.groups:
        part = Func(fresh_name("_".join((name, *map(str, group))), taken))
        taken = {*taken, part.name}
        part.location, part._dtypes = func.location, tuple(func.dtypes[k] for k in group)
        part.boundary, part.boundary_ranges = func.boundary, func.boundary_ranges
        values = tuple(definition.values[k] for k in group)
        chosen = Definition(definition.indices, values, definition.rvars, definition.location)
        part._definitions.append(with_replaced_reads(chosen, replaced))
        components |= {k: (part, n) for n, k in enumerate(group)}
    return Replacement(components[0][0], 0, tuple(components[k] for k in sorted(components)))
