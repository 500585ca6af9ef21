"""Softmax of every row: exponentials that add up to 1."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.rows import random_rows, softmax_of
from autosched.apps.sizes import Size
from autosched.apps.tolerance import Tolerance
from autosched.lang import idioms
from autosched.lang.dtypes import float32
from autosched.lang.func import Input
from autosched.lang.pipeline import Pipeline


def build() -> Pipeline:
    """Return the pipeline: ``input`` float32 [R, C] to ``output`` float32 [R, C].

    As in PyTorch, -inf becomes 0, and a row is NaN where it has a NaN, an infinity above 0, or -inf alone.
    """
    values = Input("input", float32, 2)
    rows, columns = values.shape
    output = idioms.softmax(values, x=(0, columns), name="output")
    return Pipeline(output.over(y=(0, rows), x=(0, columns)), name="softmax")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return rows of normal deviates whose means and deviations differ."""
    return {"input": random_rows(np.random.default_rng(seed), sizes["R"], sizes["C"])}


def compute(input: NDArray[np.float32]) -> Arrays:
    """Return the output, computed in double precision."""
    return {"output": softmax_of(input).astype(np.float32)}


APP = App(
    name="softmax",
    build=build,
    papers=(),
    extents={"input": (Size("R"), Size("C"))},
    default_sizes={"R": 512, "C": 8192},
    small_sizes={"R": 13, "C": 77},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=2e-5, atol=1e-7),  # sums are in single precision, in another order
)
