"""The rewritten pipeline that a schedule's kernels compute.

Rewrites are applied kind by kind, in the order of `_KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.component_fission import component_fission_error, split_components
from autosched.analysis.rewrites.deinterleaving import deinterleave_reads, deinterleaving_error
from autosched.analysis.rewrites.func_cloning import clone_error, clone_funcs
from autosched.analysis.rewrites.horizontal_fusion import fuse_outputs, fusion_error
from autosched.analysis.rewrites.integer_narrowing import narrow_integers, narrowing_error
from autosched.analysis.rewrites.invariant_hoisting import hoist_invariants, hoisting_error
from autosched.analysis.rewrites.reduction_unrolling import unroll_reductions, unrolling_error
from autosched.analysis.rewrites.rfactor import apply_rfactors, rfactor_error
from autosched.analysis.rewrites.scan_blocking import block_scans, scan_error
from autosched.analysis.rewrites.statement import rewrite_statements, statement_error
from autosched.analysis.rewrites.window_doubling import double_windows, window_error
from autosched.schedule.types import Schedule


class _Kind(NamedTuple):
    """A kind of rewrite.

    Attributes:
        name: Name in messages.
        field: Field of the schedule.
        applied: Returns the pipeline with such rewrites.
        error: Returns the reason why one cannot be applied.
    """

    name: str
    field: str
    applied: Callable[[BoundPipeline, Sequence[Any]], BoundPipeline]
    error: Callable[[BoundPipeline, Any], str]


_KINDS = (
    _Kind("window", "windows", double_windows, window_error),
    _Kind("scan by blocks", "scans", block_scans, scan_error),
    _Kind("deinterleaving", "deinterleavings", deinterleave_reads, deinterleaving_error),
    _Kind("hoisting", "hoistings", hoist_invariants, hoisting_error),
    _Kind("unrolling", "unrollings", unroll_reductions, unrolling_error),
    _Kind("narrowing", "narrowings", narrow_integers, narrowing_error),
    _Kind("rfactor", "rfactors", apply_rfactors, rfactor_error),
    _Kind("statement", "statements", rewrite_statements, statement_error),
    _Kind("component fission", "fissions", split_components, component_fission_error),
    _Kind("horizontal fusion", "fusions", fuse_outputs, fusion_error),
    _Kind("clone", "clones", clone_funcs, clone_error),
)
_BIT_EQUAL = ("fissions", "fusions", "clones")
"""Fields of the last kinds, which rearrange Funcs and keep the order of all operations."""


def apply_rewrites(bound: BoundPipeline, schedule: Schedule) -> BoundPipeline:
    """Return the pipeline that a schedule's kernels compute.

    Raises:
        ScheduleError: If a rewrite of the schedule is illegal.
    """
    return _with_kinds(bound, schedule, _KINDS)


def reassociated_pipeline(bound: BoundPipeline, schedule: Schedule) -> BoundPipeline:
    """Return the pipeline with the rewrites of a schedule that keep its outputs, in whose order its sums are rounded.

    Fissions of components, fusions and clones are left out.

    Raises:
        ScheduleError: If a rewrite of the schedule is illegal.
    """
    return _with_kinds(bound, schedule, [kind for kind in _KINDS if kind.field not in _BIT_EQUAL])


def rewrite_error(bound: BoundPipeline, schedule: Schedule) -> str:
    """Return why a rewrite of the schedule is illegal, empty if all are legal."""
    for kind in _KINDS:
        chosen = getattr(schedule, kind.field)
        for k, rewrite in enumerate(chosen):
            problem = kind.error(kind.applied(bound, chosen[:k]), rewrite)
            if problem:
                return f"{kind.name} {k}: {problem}"
        bound = kind.applied(bound, chosen)
    return ""


def _with_kinds(bound: BoundPipeline, schedule: Schedule, kinds: Sequence[_Kind]) -> BoundPipeline:
    return reduce(lambda b, kind: kind.applied(b, getattr(schedule, kind.field)), kinds, bound)
