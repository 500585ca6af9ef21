"""What tells versions of the analytical models apart: the seconds they give for a kernel with made-up features.

Corrections that were learned of one version are wrong for another. A version worked out from what the models say cannot
be forgotten when they change, and does not change with a comment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from autosched.analysis.bind import bind
from autosched.featurize import schema
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.host import Host
from autosched.lang.dtypes import float32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.lang.rdom import sum as sum_over
from autosched.model.predict.analytical_prior import prior_for
from autosched.schedule.types import StageId
from autosched.target import Target, cpu_target, get_target

KERNELS = 8
DIGITS = 5
"""Significant digits that count, so that the order of sums does not."""


@lru_cache(maxsize=8)
def prior_version(kind: str, processor: str = "") -> str:
    """Return hexadecimal digits that change when the parts of the analytical model for a kind of target do.

    Args:
        kind: ``cuda`` or ``cpu``, as `Target.kind`.
        processor: Of a CPU, the kind that it is, as `Target.processor`; rates of others do not count.
    """
    target = replace(_reference(kind), processor=processor)
    prior = prior_for(target)
    kernels = (_taps(target), _rows(target), _ratio(target), _wide_sums(target)) if kind == "cpu" else (_taps(target),)
    parts = np.concatenate([prior.parts(found).reshape(-1) for found in kernels])
    values = " ".join(f"{v:.{DIGITS}g}" for v in parts)
    return hashlib.sha256(f"{','.join(prior.names)}|{values}".encode()).hexdigest()[:12]


def _taps(target: Target) -> BatchEvaluation:
    """Return a sum over a window, in threads of one point."""
    y, x, taps = Var("y"), Var("x"), RDom("taps", k=5)
    image, out = Input("image", float32, 2), Func("out")
    out[y, x] = sum_over(image[y, x + taps.k] * image[y // 2, x], over=taps) / 5.0
    return _made_up(out, target, (1, 1, 1, 1))


def _rows(target: Target) -> BatchEvaluation:
    """Return a window of whose rows a processor takes four together."""
    y, x = Var("y"), Var("x")
    image, out = Input("image", float32, 2), Func("out")
    first, *others = [image[y + dy, x + dx] for dy in range(3) for dx in range(3)]
    out[y, x] = sum(others, first)
    return _made_up(out, target, (1, 16, 4, 1))


def _ratio(target: Target) -> BatchEvaluation:
    """Return a ratio of two values of an inlined Func, which share what does not depend on which of them it is."""
    y, x, c = Var("y"), Var("x"), Var("c")
    image, both, out = Input("image", float32, 2), Func("both"), Func("out")
    both[y, x, c] = image[y, x] * 2.0 * image[y, x] + c
    out[y, x] = both[y, x, 0] / both[y, x, 1]
    return _made_up(out, target, (1, 16, 1, 1))


def _wide_sums(target: Target) -> BatchEvaluation:
    """Return sums of rows that a processor goes through in strips."""
    y, x, taps = Var("y"), Var("x"), RDom("taps", k=5)
    image, out = Input("image", float32, 2), Func("out")
    out[y, x] = 0.0
    out[y, x] += image[y, x + taps.k]
    found = _made_up(out, target, (1, 512, 2, 1), width=1024)
    features = found.features.copy()
    features[:, :, schema.INDEX["innermost_pure_loop_extent"]] = 2
    return replace(found, features=features)


def _made_up(out: Func, target: Target, params: Sequence[int], width: int = 60) -> BatchEvaluation:
    """Return a kernel that computes a Func of an image, with features that are made up.

    Args:
        out: The Func.
        target: What it is for.
        params: Threads and points of a thread in y and x.
        width: Of its rows.
    """
    bound = bind(Pipeline([out.over(y=(0, 64), x=(0, width))]), {"image": (66, width + 4)})
    featurizer = Featurizer(bound, target)
    name = next(iter(bound.outputs.values()))
    stages = tuple(StageId(name, s.number) for s in bound.funcs[name].stages)
    model = featurizer.model(KernelSketch(stages, inlined=frozenset(bound.funcs) - {name}))
    found = featurizer.evaluate([model], [np.tile(np.array(params, np.int64), (KERNELS, 1))])
    rng = np.random.default_rng(0)
    features = rng.integers(1, 1000, found.features.shape).astype(np.float64)
    ratios = [n for n in schema.NAMES if "efficiency" in n or n in ("idle_lane_wastage", "warp_lane_utilization")]
    features[:, :, [schema.INDEX[n] for n in ratios]] /= 1000
    return replace(found, features=features)


def _reference(kind: str) -> Target:
    """Return a target of a kind that is the same on every machine."""
    if kind == "cpu":
        return cpu_target(Host(2, 16, 1 << 20, 1 << 25, 1 << 33, 3e9))
    return get_target("h200")
