"""Product of two float32 matrices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.sizes import Size
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.lang.rdom import sum as sum_over


def build() -> Pipeline:
    """Return the pipeline: ``A`` float32 [M, K] times ``B`` float32 [K, N] to ``output`` float32 [M, N].

    The sum is a separate Func, so that a schedule can keep it in registers until the output is written.
    """
    y, x = Var("y"), Var("x")
    a, b = Input("A", float32, 2), Input("B", float32, 2)
    (rows, depth), (_, columns) = a.shape, b.shape
    r = RDom("r", k=depth)
    output = Func("output")
    output[y, x] = sum_over(a[y, r.k] * b[r.k, x], over=r, name="product")
    return Pipeline(output.over(y=(0, rows), x=(0, columns)), name="sgemm")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return matrices of normal deviates, whose product shows reduced precision."""
    rng = np.random.default_rng(seed)
    shapes = {"A": (sizes["M"], sizes["K"]), "B": (sizes["K"], sizes["N"])}
    return {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def compute(A: NDArray[np.float32], B: NDArray[np.float32]) -> Arrays:
    """Return NumPy's product."""
    return {"output": A @ B}


APP = App(
    name="sgemm",
    build=build,
    papers=("Sioutas", "Anderson"),
    extents={"A": (Size("M"), Size("K")), "B": (Size("K"), Size("N"))},
    default_sizes={"M": 1536, "N": 1536, "K": 1536},
    small_sizes={"M": 53, "N": 77, "K": 45},
    generate=generate,
    compute=compute,
    # Schedules change the order of 1,536 products: where they cancel, rounding is a large part of the sum.
    tolerance=Tolerance(rtol=1e-4, atol=5e-4),
)
