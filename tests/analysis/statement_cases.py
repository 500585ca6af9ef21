"""Stencils for the tests of rewritten statements, and the comparison of all backends."""

from __future__ import annotations

import numpy as np

from autosched import Expr, Func, Input, Pipeline, Var, cast, interpret
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lang.dtypes import DType
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import get_target
from tests.lower.run_backends import random_inputs

TARGETS = {"cpu": get_target("cpu"), "emulator": get_target("h200")}
z, y, x = Var("z"), Var("y"), Var("x")


def bordered(source: Input, boundary: str) -> Func:
    """Return an input with a boundary condition."""
    return source.constant(1) if boundary == "constant" else getattr(source, boundary)()


def cross(boundary: str, dtype: DType, rows: int = 7, columns: int = 11) -> BoundPipeline:
    """Return a 2-D stencil of a product of two arrays, which is read at nine points."""
    a, b, f = Input("a", dtype, 2), Input("b", dtype, 2), Func("f")
    at, bt = bordered(a, boundary), bordered(b, boundary)

    def flux(dy: int, dx: int) -> Expr:
        return at[y + dy, x + dx] * bt[y + dy, x + dx] + at[y + dy, x + dx]

    total = flux(0, 0) * cast(dtype, 3)
    for k, (dy, dx) in enumerate([(0, 1), (0, -1), (1, 0), (-1, 0), (0, 2), (0, -2), (2, 0), (-2, 0)]):
        total = total + flux(dy, dx) if k % 2 else total - flux(dy, dx)
    f[y, x] = total
    return bind(Pipeline(f.over(y=(0, rows), x=(0, columns))), {"a": (rows, columns), "b": (rows, columns)})


def star(boundary: str, dtype: DType, extents: tuple[int, int, int] = (6, 5, 9)) -> BoundPipeline:
    """Return a 3-D stencil of a product, with neighbours along each axis, between two other Funcs."""
    a, b, smooth, f, out = Input("a", dtype, 3), Input("b", dtype, 3), Func("smooth"), Func("f"), Func("out")
    depth, rows, columns = extents
    smooth[z, y, x] = a[z, y, x] + a[z, y, x] * b[z, y, x]
    ranges = {"z": (0, depth), "y": (0, rows), "x": (0, columns)}
    at = smooth.constant(1, **ranges) if boundary == "constant" else getattr(smooth, boundary)(**ranges)
    bt = bordered(b, boundary)

    def flux(dz: int, dy: int, dx: int) -> Expr:
        p = (z + dz, y + dy, x + dx)
        return at[p] * bt[p]

    total = flux(0, 0, 0) * cast(dtype, 2)
    for axis in range(3):
        for m in (-1, 1):
            d = [0, 0, 0]
            d[axis] = m
            total = total + flux(*d)
    f[z, y, x] = total
    out[z, y, x] = f[z, y, x] - smooth[z, y, x]
    return bind(Pipeline(out.over(**ranges)), {"a": extents, "b": extents})


def assert_all_witnesses(
    bound: BoundPipeline, rewritten: BoundPipeline, seeds: int = 2, root: BoundPipeline | None = None
) -> None:
    """Compare interpreter, C, emulator and the pipeline without rewrites; CUDA text is compiled for sm_90.

    Args:
        bound: The pipeline whose bits are expected.
        rewritten: The pipeline after rewrites that keep its bits.
        seeds: Number of random schedules for each backend.
        root: The pipeline without rewrites, if it is another one.
    """
    root = bound if root is None else root
    inputs = random_inputs(bound)
    expected = list(interpret(bound.pipeline, inputs).values())
    funcs = interpret(rewritten.pipeline, inputs)
    if not rewritten.fused_arrays:
        for got, wanted in zip(funcs.values(), expected, strict=True):
            np.testing.assert_array_equal(got, wanted, strict=True)
    for seed in range(seeds):
        for backend, target in TARGETS.items():
            schedule = sample_schedule(rewritten, target, np.random.default_rng(seed), varied=True)
            assert schedule.rewrites == rewritten.rewrites and not violations(root, schedule, target)
            assert from_json(to_json(root, schedule), root) == schedule
            scheduled = ScheduledPipeline(root, schedule, target)
            result = scheduled.compile(backend)(inputs)
            arrays = result if isinstance(result, tuple) else (result,)
            for got, wanted in zip(arrays, expected, strict=True):
                np.testing.assert_array_equal(got, wanted, err_msg=f"seed {seed} by {backend}", strict=True)
            if backend == "emulator" and have_nvrtc() and seed == 0:
                scheduled.compile("cuda")
