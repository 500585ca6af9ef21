"""Fission and fusion of outputs: the versions of a pipeline by what its kernels return (Artemis, section VI-B).

A version is a rewritten pipeline, and the Funcs with kernels of their own; all others are computed inside these
kernels, and recomputed in each that reads them.

| version | kernels |
|---|---|
| ``maxfuse`` | all outputs over one region in one |
| ``trivial-fission`` | one for each returned array, also of tuple-valued outputs |
| ``recompute-fission`` | as ``maxfuse``, but none recomputes a halo of more than max(4, r) points, where r is the order of its widest stencil |
| ``group-fission`` | the outputs of ``maxfuse`` in two groups of nearly equal numbers of operations |
| ``expression-fission`` | as ``trivial-fission``, but Funcs of very many operations are split in two |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline
from autosched.analysis.expressions.operation_count import operations
from autosched.analysis.expressions.shifts import shift_of
from autosched.analysis.pipeline_rewrites import ComponentFission, ExpressionFission, HorizontalFusion
from autosched.analysis.rewrites.component_fission import component_fission_error, split_components
from autosched.analysis.rewrites.horizontal_fusion import fuse_outputs, fusion_error
from autosched.analysis.rewrites.statement import rewrite_statements, statement_error

WIDEST_HALO = 4
"""Halo of recomputed points up to which Funcs share a kernel, whatever the order of their stencils."""
LARGE = 96
"""Least operations of a Func that is split in two."""
LEAST_GROUPED = 64
"""Least operations of the outputs that are split in two groups, all together."""


@dataclass(frozen=True)
class FissionVersion:
    """A version of a pipeline.

    Attributes:
        name: Its name, as in the table above.
        bound: The rewritten pipeline.
        roots: The Funcs with kernels of their own.
    """

    name: str
    bound: BoundPipeline
    roots: tuple[str, ...]


def fission_versions(bound: BoundPipeline) -> tuple[FissionVersion, ...]:
    """Return the distinct versions of a pipeline, in the order of the table above.

    Args:
        bound: The pipeline, without rewrites.
    """
    fused, split, large = _with_fusions(bound, _groups(bound)), _with_components(bound), with_large_split(bound)
    versions = [
        FissionVersion("maxfuse", fused, _returned(fused)),
        FissionVersion("trivial-fission", split, _returned(split)),
        FissionVersion("recompute-fission", fused, (*_returned(fused), *wide_producers(fused))),
        *(FissionVersion("group-fission", b, _returned(b)) for b in with_groups(bound)),
        *(FissionVersion("expression-fission", b, (*_returned(b), *_parts(b))) for b in map(_with_components, large)),
    ]
    distinct: dict[tuple[int, frozenset[str]], FissionVersion] = {}
    for version in versions:
        distinct.setdefault((id(version.bound), frozenset(version.roots)), version)
    return tuple(distinct.values())


def divides_outputs(bound: BoundPipeline) -> bool:
    """Return whether a version has outputs, their components or parts of large Funcs in several kernels.

    Args:
        bound: The pipeline, without rewrites.
    """
    return len(_returned(bound)) > 1 or _with_components(bound) is not bound or bool(with_large_split(bound))


def fission_rewrites(bound: BoundPipeline) -> list[BoundPipeline]:
    """Return the fissions that a search tries besides horizontal fusion; empty for small Funcs.

    Args:
        bound: The pipeline, without rewrites.
    """
    total = sum(operations(s) for name in _returned(bound) for s in bound.funcs[name].stages)
    split = _with_components(bound)
    tuples = [split] if split is not bound and total >= LEAST_GROUPED else []
    return [*tuples, *with_groups(bound), *with_large_split(bound)]


def with_groups(bound: BoundPipeline) -> list[BoundPipeline]:
    """Return the pipeline with each fusible group of more than two outputs in two groups; empty if there are none."""
    fusions: list[HorizontalFusion] = []
    is_halved = False
    for group in _groups(bound):
        total = sum(operations(bound.funcs[name].stages[0]) for name in group)
        if len(group) < 3 or total < LEAST_GROUPED:
            fusions.append(HorizontalFusion(group))
            continue
        halves = [HorizontalFusion(half) for half in _halves(bound, group) if len(half) > 1]
        fusions += [half for half in halves if not fusion_error(bound, half)]
        is_halved = True
    return [fuse_outputs(bound, fusions)] if is_halved and fusions else []


def with_large_split(bound: BoundPipeline) -> list[BoundPipeline]:
    """Return the pipeline with Funcs of at least `LARGE` operations in two parts; empty if there are none."""
    rewritten = bound
    for name, func in bound.funcs.items():
        if func.boundary is None and func.is_pure and len(func.dtypes) == 1 and operations(func.stages[0]) >= LARGE:
            fission = ExpressionFission(name, 2)
            if not statement_error(rewritten, fission):
                rewritten = rewrite_statements(rewritten, (*rewritten.statements, fission))
    return [] if rewritten is bound else [rewritten]


def wide_producers(bound: BoundPipeline) -> tuple[str, ...]:
    """Return the Funcs that get kernels of their own, so that no kernel recomputes too wide a halo.

    The halo of a Func is the most points, in one dimension and direction, that the kernel computes beyond those that it
    returns. Boundary conditions are part of the Funcs that read them.
    """
    order = max((reach for f in bound.funcs.values() for _, reach in _reads(bound, f)), default=0)
    limit = max(WIDEST_HALO, order)
    halo: dict[str, int] = dict.fromkeys(_returned(bound), 0)
    cut: list[str] = []
    for name, func in reversed(list(bound.funcs.items())):  # consumers first
        if halo.get(name, 0) > limit and func.boundary is None:
            cut.append(name)
            halo[name] = 0
        for source, reach in _reads(bound, func):
            if source in bound.funcs and source not in _returned(bound):
                halo[source] = max(halo.get(source, 0), halo.get(name, 0) + reach)
    return tuple(cut)


def shared_producers(bound: BoundPipeline, roots: Sequence[str]) -> tuple[str, ...]:
    """Return the Funcs that several kernels recompute, without boundary conditions.

    Args:
        bound: The pipeline.
        roots: The Funcs with kernels of their own.
    """
    kernels: dict[str, frozenset[str]] = {}
    for name, func in reversed(list(bound.funcs.items())):  # consumers first
        readers = (frozenset({c}) if c in roots else kernels[c] for c in func.consumers)
        kernels[name] = frozenset().union(*readers)
    return tuple(
        name for name, func in bound.funcs.items()
        if name not in roots and len(kernels[name]) > 1 and func.boundary is None
    )  # fmt: skip


def _reads(bound: BoundPipeline, func: BoundFunc) -> Iterator[tuple[str, int]]:
    """Yield the sources of a Func with the largest distance at which it reads them."""
    if func.boundary is not None:
        yield from ((source, 0) for source in func.stages[0].sources)
        return
    for stage in func.stages:
        for load, source in stage.loads:
            shifts = [shift_of(i) for i in load.indices]
            yield source, max((abs(s[1]) for s in shifts if s is not None), default=0)


def _groups(bound: BoundPipeline) -> list[tuple[str, ...]]:
    """Return the outputs in the largest groups that can be fused."""
    groups: list[tuple[str, ...]] = []
    for name in _returned(bound):
        for k, group in enumerate(groups):
            if not fusion_error(bound, HorizontalFusion((*group, name))):
                groups[k] = (*group, name)
                break
        else:
            groups.append((name,))
    return groups


def _halves(bound: BoundPipeline, group: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a group in two parts, in order, of nearly equal numbers of operations."""
    counts = [operations(bound.funcs[name].stages[0]) for name in group]
    cut = min(range(1, len(group)), key=lambda k: abs(2 * sum(counts[:k]) - sum(counts)))
    return tuple(group[:cut]), tuple(group[cut:])


def _with_fusions(bound: BoundPipeline, groups: Sequence[Sequence[str]]) -> BoundPipeline:
    return fuse_outputs(bound, [HorizontalFusion(tuple(group)) for group in groups if len(group) > 1])


def _with_components(bound: BoundPipeline) -> BoundPipeline:
    """Return the pipeline with each component of tuple-valued outputs in a Func, where that is legal."""
    fissions: tuple[ComponentFission, ...] = ()
    for name in _returned(bound):
        fission = ComponentFission(name, tuple((k,) for k in range(len(bound.funcs[name].dtypes))))
        if not component_fission_error(split_components(bound, fissions), fission):
            fissions = (*fissions, fission)
    return split_components(bound, fissions)


def _parts(bound: BoundPipeline) -> tuple[str, ...]:
    """Return the Funcs that fissions of expressions have added."""
    before = bound.before_statements
    return () if before is None else tuple(name for name in bound.funcs if name not in before.funcs)


def _returned(bound: BoundPipeline) -> tuple[str, ...]:
    return tuple(dict.fromkeys(func for _, func, _ in bound.output_components))
