"""Kernel regression: at each query point the mean of the samples' values, weighted by their distance."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.sizes import Size
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float32
from autosched.lang.expr import Param, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import exp
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.lang.rdom import sum as sum_over

BANDWIDTH = 0.5
LEAST_WEIGHT = 1e-6
"""Weight of every sample at least, so that a point far from all of them gets their mean."""


def build() -> Pipeline:
    """Return the pipeline: ``queries`` float32 [D, N] to ``output`` float32 [N].

    ``samples`` float32 [S, D] have ``values`` float32 [S]. This is the estimate of Nadaraya and Watson with Gaussian
    weights; its Param is ``bandwidth``, their standard deviation.
    """
    s, n = Var("s"), Var("n")
    queries, samples, values = Input("queries", float32, 2), Input("samples", float32, 2), Input("values", float32, 1)
    bandwidth = Param("bandwidth", float32, BANDWIDTH)
    axis, sample = RDom("axis", d=queries.shape[0]), RDom("sample", s=samples.shape[0])
    weight, total, output = Func("weight"), Func("total"), Func("output")
    apart = samples[s, axis.d] - queries[axis.d, n]
    distance = sum_over(apart * apart, over=axis, name="distance")
    weight[s, n] = exp(distance * (-0.5 / (bandwidth * bandwidth))) + LEAST_WEIGHT
    total[n] = (0.0, 0.0)  # of weighted values, and of weights
    weighted, weights = total[n]
    total[n] = (weighted + weight[sample.s, n] * values[sample.s], weights + weight[sample.s, n])
    output[n] = total[n][0] / total[n][1]
    return Pipeline(output.over(n=(0, queries.shape[1])), name="kernel_regression")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return normal deviates, and sample values: a smooth function of the samples with noise."""
    rng = np.random.default_rng(seed)
    queries = rng.standard_normal((sizes["D"], sizes["N"]), dtype=np.float32)
    samples = rng.standard_normal((sizes["S"], sizes["D"]), dtype=np.float32)
    values = np.sin(samples.sum(axis=1)) + rng.standard_normal(sizes["S"], dtype=np.float32) / 10
    return {"queries": queries, "samples": samples, "values": values}


def compute(
    queries: NDArray[np.float32],
    samples: NDArray[np.float32],
    values: NDArray[np.float32],
    bandwidth: float = BANDWIDTH,
) -> Arrays:
    """Return the output in double precision by NumPy, one sample after the other."""
    points = queries.astype(np.float64)
    weighted, weights = np.zeros(points.shape[1]), np.zeros(points.shape[1])
    for sample, value in zip(samples.astype(np.float64), values.astype(np.float64), strict=True):
        distance = ((points - sample[:, None]) ** 2).sum(axis=0)
        weight = np.exp(distance / (-2 * bandwidth**2)) + LEAST_WEIGHT
        weighted += weight * value
        weights += weight
    return {"output": (weighted / weights).astype(np.float32)}


APP = App(
    name="kernel_regression",
    build=build,
    papers=(),
    extents={"queries": (Size("D"), Size("N")), "samples": (Size("S"), Size("D")), "values": (Size("S"),)},
    default_sizes={"N": 65536, "S": 1024, "D": 8},
    small_sizes={"N": 147, "S": 53, "D": 5},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=2e-5, atol=1e-5),  # sums are in single precision, in another order
)
