"""Distinct reads of adjacent blocks, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.host import Host
from autosched.lang.dtypes import float32, int32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast, clamp
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.schedule.types import Level, StageId
from autosched.search.cost.cpu.analytical import CpuModel
from autosched.search.cost.cpu.cache_traffic import KEPT_BYTES
from autosched.search.cost.cpu.coefficients import CPU_COMPONENTS
from autosched.search.cost.cpu.kernel_costs import CpuKernelCosts
from autosched.search.cost.cpu.lane_loops import LaneLoops, lane_loops
from autosched.target import cpu_target

CPU = replace(cpu_target(Host(2, 16, 1 << 20, 32 << 20, 1 << 34, 2.5e9)), multiprocessors=1)
z, y, x = Var("z"), Var("y"), Var("x")
VOLUME, IMAGE = Input("volume", float32, 3), Input("image", float32, 2)


def stencil(depth: int, height: int, width: int) -> tuple[Featurizer, KernelSketch]:
    """Return a kernel that reads three planes and two rows of a volume for each point."""
    f = Func("f")
    f[z, y, x] = VOLUME[z, y, x] + VOLUME[z + 1, y, x] + VOLUME[z + 2, y, x] + VOLUME[z, y + 1, x]
    pipeline = Pipeline([f.over(z=(0, depth), y=(0, height), x=(0, width))])
    bound = bind(pipeline, {"volume": (depth + 2, height + 1, width)})
    return Featurizer(bound, CPU), KernelSketch((StageId("f"),))


def evaluated(kernel: tuple[Featurizer, KernelSketch], *params: int) -> BatchEvaluation:
    featurizer, sketch = kernel
    return featurizer.evaluate([featurizer.model(sketch)], [np.array([params], np.int64)])


def read_by_blocks(found: BatchEvaluation) -> LaneLoops:
    return lane_loops(found, lambda model: CpuKernelCosts(model, {}))


def test_reads_of_block_row_and_slab() -> None:
    found = read_by_blocks(evaluated(stencil(16, 32, 64), 1, 8, 32, 1, 1, 1))
    planes_and_rows = np.array([3 * 9, 3 * 9, 3 * 33, 18 * 33])
    assert found.level_bytes[0].tolist() == (4 * planes_and_rows * [32, 64, 64, 64]).tolist()
    assert found.level_rows[0].tolist() == planes_and_rows.tolist()
    assert found.level_groups[0].tolist() == [16 * 4 * 2, 16 * 4, 16, 1]


def test_dimensions_of_one_block_are_no_level() -> None:
    found = read_by_blocks(evaluated(stencil(16, 32, 64), 1, 8, 64, 1, 4, 1))
    assert found.level_bytes[0].tolist() == [4 * 64 * n for n in (3 * 33, 18 * 33, 18 * 33, 18 * 33)]
    assert found.level_groups[0].tolist() == [16, 1, 1, 1]


@pytest.mark.parametrize("level", [Level.THREAD, Level.BLOCK])
def test_reads_of_producers_inside_threads(level: Level) -> None:
    g, f = Func("g"), Func("f")
    g[y, x] = IMAGE[y, x] * 2
    f[y, x] = g[y, x] + g[y + 2, x]
    bound = bind(Pipeline([f.over(y=(0, 64), x=(0, 128))]), {"image": (66, 128)})
    kernel = Featurizer(bound, CPU), KernelSketch((StageId("f"),), (ComputeLocation("g", level, StageId("f")),))
    own = (1, 32) if level is Level.BLOCK else ()
    found = read_by_blocks(evaluated(kernel, 2, 32, 4, 1, *own))
    assert found.level_bytes.tolist() == [[0, 0, 0], [4 * 10 * 32, 4 * 10 * 128, 4 * 66 * 128]]
    assert found.level_rows[1].tolist() == [10, 10, 66]
    assert found.level_groups[1].tolist() == [8 * 4, 8, 1]


def test_recomputation_rereads_rows() -> None:
    """A sum of each row divides the points of the row, so that it varies with one of two block loops."""
    k, total, f = RDom("k", k=(0, 128)), Func("total"), Func("f")
    total[y] = 0.0
    total[y] += IMAGE[y, k.k]
    f[y, x] = IMAGE[y, x] / total[y]
    bound = bind(Pipeline([f.over(y=(0, 64), x=(0, 128))]), {"image": (64, 128)})
    kernel = (
        Featurizer(bound, CPU),
        KernelSketch((StageId("f"),), (ComputeLocation("total", Level.BLOCK, StageId("f")),)),
    )
    found = read_by_blocks(evaluated(kernel, 4, 32, 1, 1, 4, 1))
    assert found.level_bytes.tolist() == [
        [4 * 4 * 32, 4 * 4 * 128, 4 * 64 * 128], [0, 0, 0], [4 * 4 * 128, 4 * 4 * 128, 4 * 64 * 128]
    ]  # fmt: skip


def test_gathers_are_bounded_by_the_array() -> None:
    f, table = Func("f"), Input("table", float32, 2)
    f[y, x] = table[clamp(cast(int32, IMAGE[y, x]), 0, 7), x]
    bound = bind(Pipeline([f.over(y=(0, 64), x=(0, 128))]), {"image": (64, 128), "table": (8, 128)})
    found = read_by_blocks(evaluated((Featurizer(bound, CPU), KernelSketch((StageId("f"),))), 64, 32, 1, 1))
    assert found.level_bytes[0].tolist() == [4 * 32 * (64 + 8), 4 * 128 * (64 + 8), 4 * 128 * (64 + 8)]


@pytest.mark.parametrize(("side", "times"), [(128, 1), (512, 3)])
def test_large_shared_planes_come_from_the_last_level(side: int, times: int) -> None:
    depth = 64
    assert (3 * 4 * side * side <= KEPT_BYTES) == (times == 1)
    found = CpuModel(CPU).counts(evaluated(stencil(depth, side, side), 1, 1, side, 1, 4, 1))
    counts = dict(zip(CPU_COMPONENTS, found[0].tolist(), strict=True))
    array = 4 * depth * side * side
    assert counts["cache_bytes"] == pytest.approx((times + 1) * array, rel=0.05)  # written once
    assert counts["core_bytes"] == pytest.approx((3 * 5 / 4 - times) * array, rel=0.07)


def test_prefetcher_misses_many_partial_rows() -> None:
    wide = stencil(16, 64, 1024)
    names = CPU_COMPONENTS.index("streams")
    whole, few, many = (
        CpuModel(CPU).counts(evaluated(wide, 1, *tile))[0, names]
        for tile in ((1, 1024, 1, 1, 1), (1, 64, 1, 1, 1), (16, 64, 1, 4, 1))
    )
    assert many > 5 * few > 5 * whole
