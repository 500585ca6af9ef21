"""Version of the analytical models and of the counts that feed them: a hash of their values for given kernels.

Learned corrections of one version are wrong for another. A version computed from the models' output cannot be forgotten
when a model changes, and does not change with a comment. Kernels with random features cover the formulas of the models.
The kernels of stored schedules, and masks of narrow integers, have their own features, which cover the counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize import schema
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.host import Host
from autosched.lang.dtypes import DType, float32, int16, uint8
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import select
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.lang.rdom import sum as sum_over
from autosched.measure.compile.codegen_version import fixed_schedules
from autosched.measure.compile.content_keys import schedule_text
from autosched.model.data.features import featurize_problem
from autosched.model.predict.analytical_prior import prior_for
from autosched.schedule.types import StageId
from autosched.target import Target, cpu_target, get_target

KERNELS = 8
DIGITS = 5
"""Significant digits in the hash, so that it does not depend on the order of summation."""


@lru_cache(maxsize=8)
def prior_version(kind: str, processor: str = "") -> str:
    """Return a hexadecimal hash of features and of the analytical model's parts for a kind of target.

    Args:
        kind: ``cuda`` or ``cpu``, as `Target.kind`.
        processor: Kind of a CPU, as `Target.processor`; coefficients of other kinds do not count.
    """
    target = replace(_reference(kind), processor=processor)
    prior = prior_for(target)
    kernels = (_taps(target), _rows(target), _ratio(target), _wide_sums(target)) if kind == "cpu" else (_taps(target),)
    parts = [prior.parts(evaluation) for evaluation in (*kernels, *_masks(target))]
    values = " ".join(f"{v:.{DIGITS}g}" for v in np.concatenate([p.reshape(-1) for p in (*parts, *_counted(target))]))
    return hashlib.sha256(f"{','.join(prior.names)}|{values}".encode()).hexdigest()[:12]


def _taps(target: Target) -> BatchEvaluation:
    """Return a kernel of window sums, with one point per thread."""
    y, x, taps = Var("y"), Var("x"), RDom("taps", k=5)
    image, out = Input("image", float32, 2), Func("out")
    out[y, x] = sum_over(image[y, x + taps.k] * image[y // 2, x], over=taps) / 5.0
    return _synthetic(out, target, (1, 1, 1, 1))


def _rows(target: Target) -> BatchEvaluation:
    """Return a stencil kernel to which unroll-and-jam applies with four rows."""
    y, x = Var("y"), Var("x")
    image, out = Input("image", float32, 2), Func("out")
    first, *others = [image[y + dy, x + dx] for dy in range(3) for dx in range(3)]
    out[y, x] = sum(others, first)
    return _synthetic(out, target, (1, 16, 4, 1))


def _ratio(target: Target) -> BatchEvaluation:
    """Return the ratio of two values of an inlined Func, which share a subexpression."""
    y, x, c = Var("y"), Var("x"), Var("c")
    image, both, out = Input("image", float32, 2), Func("both"), Func("out")
    both[y, x, c] = image[y, x] * 2.0 * image[y, x] + c
    out[y, x] = both[y, x, 0] / both[y, x, 1]
    return _synthetic(out, target, (1, 16, 1, 1))


def _wide_sums(target: Target) -> BatchEvaluation:
    """Return sums in rows that are strip-mined."""
    y, x, taps = Var("y"), Var("x"), RDom("taps", k=5)
    image, out = Input("image", float32, 2), Func("out")
    out[y, x] = 0.0
    out[y, x] += image[y, x + taps.k]
    evaluation = _synthetic(out, target, (1, 512, 2, 1), width=1024)
    features = evaluation.features.copy()
    features[:, :, schema.INDEX["innermost_pure_loop_extent"]] = 2
    return replace(evaluation, features=features)


def _masks(target: Target) -> Iterator[BatchEvaluation]:
    """Yield kernels that compare narrow integers, with their own features."""
    for dtype in (uint8, int16):
        yield _evaluated(_compared(dtype), target, (1, 64, 1, 1), rows=1)


def _compared(dtype: DType) -> Func:
    """Return the middle one of three neighbouring integers, of which one exceeds a bound."""
    y, x = Var("y"), Var("x")
    image, out = Input("image", dtype, 2), Func("out")
    left, middle, right = (image[y, x + k] for k in range(3))
    out[y, x] = select((left < middle) & (middle > right) | (left == 7), middle, right)
    return out


def _counted(target: Target) -> Iterator[NDArray[np.floating[Any]]]:
    """Yield features and parts of the kernels of stored schedules: fused producers, updates, scans and histograms."""
    pipelines: dict[str, tuple[BoundPipeline, dict[str, str]]] = {}
    for bound, schedule in fixed_schedules("c" if target.kind == "cpu" else "cuda"):
        text = schedule_text(bound, schedule)
        pipelines.setdefault(bound.pipeline.hash, (bound, {}))[1][text] = text
    for bound, schedules in pipelines.values():
        found = featurize_problem(bound, target, schedules)
        for kernel in found.kernels.values():
            yield from (kernel.schedule, kernel.parts)


def _synthetic(out: Func, target: Target, params: Sequence[int], width: int = 60) -> BatchEvaluation:
    """Return kernels that compute a Func of an image, with random features.

    Args:
        out: The Func.
        target: The device.
        params: Threads and points of a thread in y and x.
        width: Width of the result's rows.
    """
    evaluation = _evaluated(out, target, params, width=width)
    rng = np.random.default_rng(0)
    features = rng.integers(1, 1000, evaluation.features.shape).astype(np.float64)
    ratios = [n for n in schema.NAMES if "efficiency" in n or n in ("idle_lane_wastage", "warp_lane_utilization")]
    features[:, :, [schema.INDEX[n] for n in ratios]] /= 1000
    return replace(evaluation, features=features)


def _evaluated(
    out: Func, target: Target, params: Sequence[int], *, width: int = 60, rows: int = KERNELS
) -> BatchEvaluation:
    """Return kernels that compute a Func of an image; see `_synthetic`. ``rows`` is their number."""
    bound = bind(Pipeline([out.over(y=(0, 64), x=(0, width))]), {"image": (66, width + 4)})
    featurizer = Featurizer(bound, target)
    name = next(iter(bound.outputs.values()))
    stages = tuple(StageId(name, s.number) for s in bound.funcs[name].stages)
    model = featurizer.model(KernelSketch(stages, inlined=frozenset(bound.funcs) - {name}))
    return featurizer.evaluate([model], [np.tile(np.array(params, np.int64), (rows, 1))])


def _reference(kind: str) -> Target:
    """Return a target of a kind that is equal on all machines."""
    if kind == "cpu":
        return cpu_target(Host(2, 16, 1 << 20, 1 << 25, 1 << 33, 3e9))
    return get_target("h200")
