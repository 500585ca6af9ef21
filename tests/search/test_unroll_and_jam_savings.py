"""Savings by unroll-and-jam: jam factors, and loads and values that rows share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.c import print_c
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel, described_points
from autosched.lang.dtypes import float32, int32
from autosched.lang.expr import Expr
from autosched.lang.func import Func, Input
from autosched.lang.functions import clamp
from autosched.lang.pipeline import Pipeline
from autosched.lower.program import lower
from autosched.measure.problem import Problem
from autosched.schedule.types import Schedule, StageId
from autosched.search.cost.cpu.kernel_costs import CpuKernelCosts
from autosched.search.cost.cpu.lane_loops import LaneLoops, lane_loops
from autosched.search.cost.cpu.unroll_and_jam_savings import SPARED
from autosched.search.datasets.candidate_mix import CandidateGenerator, CandidateMix
from autosched.target import get_target
from tests.codegen.gather_cases import resampled
from tests.search.cpu_cases import IMAGE, H, W, counts_of, rows_of, x, y

CPU = replace(get_target("cpu"), multiprocessors=1)
FOUR, ONE = (1, 64, 4, 1), (1, 64, 1, 1)
"""Threads and points of a thread along y and x."""


def box(source: Callable[[Expr, Expr], Expr], rows: int, columns: int) -> Expr:
    """Return a sum over a window."""
    taps = [source(y + dy, x + dx) for dy in range(rows) for dx in range(columns)]
    return sum(taps[1:], taps[0])


def stencil(rows: int = 5, columns: int = 5) -> Func:
    f, padded = Func("f"), IMAGE.clamped()
    f[y, x] = box(lambda i, j: padded[i, j], rows, columns)
    return f


def spared(found: LaneLoops, name: str) -> float:
    return float(found.jam_savings[0, SPARED.index(name)])


def nests_of(func: Func, *params: int) -> LaneLoops:
    inlined = frozenset(name for name in bind_names(func) if name != func.name)
    return rows_of(func, *params, inlined=inlined)


def bind_names(func: Func) -> list[str]:
    return list(bind(Pipeline([func.over(y=(0, H), x=(0, W))]), {"image": (H, W)}).funcs)


@pytest.mark.parametrize(
    ("params", "together"),
    [
        (ONE, 1),
        (FOUR, 4),
        ((1, 64, 8, 1), 4),
        ((1, 64, 2, 1), 2),
        ((4, 64, 1, 1), 4),  # threads side by side
        ((2, 64, 2, 1), 2),
        ((1, 1, 4, 1), 1),  # no lanes
    ],
)
def test_jam_factor_divides_the_rows(params: tuple[int, ...], together: int) -> None:
    assert nests_of(stencil(), *params).jammed[0] == together


def test_loads_of_four_jammed_rows() -> None:
    """A row of 5 x 5 points loads 25 vectors, four rows 8 x 5."""
    found = nests_of(stencil(), *FOUR)
    assert spared(found, "unit") == spared(found, "wide") == 25 - 40 / 4
    assert spared(found, "arithmetic") == 0
    assert (nests_of(stencil(), *ONE).jam_savings == 0).all()


@pytest.mark.parametrize(
    "func",
    [
        stencil(2, 2),  # waits for memory
        stencil(1, 9),  # rows share nothing
        stencil(11, 2),  # more places than are fetched ahead
    ],
)
def test_rows_without_jam(func: Func) -> None:
    assert nests_of(func, *FOUR).jammed[0] == 1


def test_jammed_rows_share_inlined_funcs() -> None:
    """Three rows of a Func with two operations per point: four jammed rows evaluate six rows, not twelve."""
    g, f, padded = Func("g"), Func("f"), IMAGE.clamped()
    g[y, x] = padded[y, x] * 2 + padded[y, x + 1] + padded[y, x + 2]
    f[y, x] = g[y, x] + g[y + 1, x] + g[y + 2, x]
    found = nests_of(f, *FOUR)
    assert found.jammed[0] == 4
    assert spared(found, "unit") == 9 - 18 / 4
    assert spared(found, "arithmetic") == 3 * (3 - 6 / 4)


def test_counts_of_jammed_rows() -> None:
    bound = bind(Pipeline([stencil().over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    sketch = KernelSketch((StageId("f"),), inlined=frozenset(bound.funcs) - {"f"})
    alone, four = (counts_of(Featurizer(bound, CPU), sketch, *params) for params in (ONE, FOUR))
    vectors = H * W / 16
    assert alone["vector_accesses"] == pytest.approx(26 * vectors)
    assert four["vector_accesses"] == pytest.approx(11 * vectors)
    assert four["rows"] == pytest.approx(alone["rows"] / 4)


def wide() -> BoundPipeline:
    f = Func("f")
    image = Input("image", float32, 2)
    f[y, x] = box(lambda i, j: image[i, j], 5, 3)
    return bind(Pipeline([f.over(y=(0, 72), x=(0, 131))]), {"image": (76, 133)})


def chosen_rows() -> BoundPipeline:
    """Return a stencil of data-dependent rows."""
    f = Func("f")
    image, at = Input("image", float32, 2), Input("at", int32, 1)
    f[y, x] = box(lambda i, j: image[i + clamp(at[0], 0, 9), j], 5, 3)
    return bind(Pipeline([f.over(y=(0, 72), x=(0, 131))], name="chosen"), {"image": (90, 133), "at": (1,)})


@pytest.mark.parametrize(
    ("bound", "schedules", "least"),
    [
        (wide(), 40, 1.0),
        (chosen_rows(), 40, 1.0),
        (resampled(), 30, 1.0),
        (Problem.app("harris", small=True).bind(), 40, 0.99),  # one has a guard, which the C backend unswitches
        (Problem.app("canny", small=True).bind(), 20, 0.95),  # so small that some have no block without guards
        (Problem.app("stencil_chain", small=True).bind(), 6, 0.95),  # of some 16 kernels each
    ],
)
def test_jam_factors_match_emitted_code(bound: BoundPipeline, schedules: int, least: float) -> None:
    featurizer, seen, agree = Featurizer(bound, CPU), set(), []
    legal = CandidateMix(beam=0, refined=0, greedy=0, states=0, legal=schedules, mutations=0, steps=0)
    for _, schedule in CandidateGenerator(bound, CPU, 1).draw(legal):
        for emitted, expected in zip(emitted_rows(bound, schedule), expected_rows(featurizer, schedule), strict=True):
            agree.append(emitted == expected)
            seen |= emitted
    assert np.mean(agree) >= least
    assert bool(seen) == (bound.pipeline.name != "chosen")


def emitted_rows(bound: BoundPipeline, schedule: Schedule) -> list[set[int]]:
    """Return the jam factor of each kernel's C code."""
    program = lower(bound, schedule)
    texts = [print_c(replace(program, kernels=(k,))).text for k in program.kernels]
    return [{int(n) for n in re.findall(r"// .*, (\d) together", text)} for text in texts]


def expected_rows(featurizer: Featurizer, schedule: Schedule) -> list[set[int]]:
    """Return the jam factors of the timing model."""
    found = []
    for kernel in schedule.kernels:
        sketch, tiles = describe_kernel(featurizer.bound, kernel)
        model = featurizer.model(sketch)
        params = np.array([(*tiles, *described_points(featurizer.bound, kernel))], np.int64)
        nests = lane_loops(model.tables.evaluate([model], [params]), lambda m: CpuKernelCosts(m, {}))
        found.append({int(n) for n in nests.jammed if n > 1})
    return found
