"""Classes of candidates by the transformations in them, to count what a tuning run has drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import ComputationFolding, ExpressionFission, Retiming
from autosched.analysis.rewrites.cache_read import cached_source, insert_cache_reads
from autosched.featurize.sketch.sketch import storage_order
from autosched.schedule.io.serialise import from_json
from autosched.schedule.kernel.warp_reduction import lane_loops
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Kernel, Level, Schedule

PLAIN = "plain"
"""Class of candidates without any transformation of the other classes."""
CANDIDATE_CLASSES = (
    PLAIN, "horizontal fusion", "mainloop", "sliding window", "cache read", "packing", "materialised producer",
    "warp reduction", "rfactor", "window doubling", "scan by blocks", "deinterleaving", "invariant hoisting",
    "computation folding", "fission", "retiming", "clone",
)  # fmt: skip
"""All classes, in the order of reports."""


def candidate_classes(bound: BoundPipeline, schedule: Schedule) -> tuple[str, ...]:
    """Return the classes of a schedule, in the order of `CANDIDATE_CLASSES`; `PLAIN` alone if it has no other.

    Args:
        bound: The pipeline without rewrites.
        schedule: A schedule of it.
    """
    chosen = {
        "horizontal fusion": bool(schedule.fusions),
        "clone": bool(schedule.clones),
        "rfactor": bool(schedule.rfactors),
        "window doubling": bool(schedule.windows),
        "scan by blocks": bool(schedule.scans),
        "deinterleaving": bool(schedule.deinterleavings),
        "invariant hoisting": bool(schedule.hoistings),
        "computation folding": any(isinstance(s, ComputationFolding) for s in schedule.statements),
        "retiming": any(isinstance(s, Retiming) for s in schedule.statements),
        "fission": bool(schedule.fissions) or any(isinstance(s, ExpressionFission) for s in schedule.statements),
    }
    rewritten = apply_rewrites(bound, schedule)
    for kernel in schedule.kernels:
        for name in _kernel_classes(rewritten, kernel):
            chosen[name] = True
    return tuple(name for name in CANDIDATE_CLASSES if chosen.get(name)) or (PLAIN,)


def _kernel_classes(bound: BoundPipeline, kernel: Kernel) -> Iterable[str]:
    """Yield the classes of one kernel; cache reads in the steps of a mainloop are a part of it."""
    if kernel.mainloop_at is not None:
        yield "sliding window" if kernel.is_sliding_window else "mainloop"
    computed = insert_cache_reads(bound, kernel.cache_reads)
    for m in kernel.fused:
        if cached_source(m.func) is not None and m.at.level is not Level.MAINLOOP:
            yield "cache read" if m.storage_order == storage_order(computed.funcs[m.func]) else "packing"
        if m.materialised:
            yield "materialised producer"
    if any(lane_loops(computed.stage(*t.stage), t.loops) for t in kernel.tilings()):
        yield "warp reduction"


def class_counts(bound: BoundPipeline, texts: Iterable[str]) -> dict[str, int]:
    """Return the number of candidates of each class, the most frequent first; a candidate may be of several.

    Args:
        bound: The pipeline without rewrites.
        texts: JSON texts of its schedules.
    """
    counts = Counter(name for text in texts for name in candidate_classes(bound, from_json(text, bound)))
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], CANDIDATE_CLASSES.index(entry[0]))))
