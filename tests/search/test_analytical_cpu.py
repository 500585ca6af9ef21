"""The CPU's timing model: what it counts, on kernels small enough to count by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from autosched.analysis.bind import bind
from autosched.featurize.model import Featurizer
from autosched.featurize.structure import Spot, Structure
from autosched.host import Host
from autosched.lang.dtypes import float32, uint16
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import exp, select
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.schedule.types import Level, StageId
from autosched.search.analytical import AnalyticalModel, analytical_model
from autosched.search.analytical_cpu import CPU_COMPONENTS, CPU_RATES, CpuModel
from autosched.search.lane_work import LaneWork, lane_works
from autosched.search.strategy import Beam
from autosched.target import cpu_target, get_target

CPU = replace(cpu_target(Host(2, 16, 1 << 20, 32 << 20, 1 << 34, 2.5e9)), multiprocessors=1)
H, W = 64, 1024
y, x = Var("y"), Var("x")
Floats = NDArray[np.float64]


def pointwise(value: Expr) -> tuple[Featurizer, Structure]:
    """Return the kernel of one Func over an image of H x W points."""
    f = Func("f")
    f[y, x] = value
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (W, 4 * W)})
    return Featurizer(bound, CPU), Structure((StageId("f"),))


IMAGE = Input("image", float32, 2)
SHORT = Input("short", uint16, 2)


def work_of(value: Expr) -> LaneWork:
    featurizer, structure = pointwise(value)
    return lane_works(featurizer.model(structure))[0]


def counts_of(featurizer: Featurizer, structure: Structure, *params: int) -> dict[str, float]:
    model = featurizer.model(structure)
    features = model.evaluate(np.array([params], np.int64)).features
    return dict(zip(CPU_COMPONENTS, CpuModel(CPU).counts(model, features)[0].tolist(), strict=True))


def test_the_factory_tells_cpus_from_gpus() -> None:
    assert isinstance(analytical_model(CPU), CpuModel)
    assert isinstance(analytical_model(get_target("h200")), AnalyticalModel)


@pytest.mark.parametrize(
    ("value", "wide", "strided", "gathered"),
    [
        (IMAGE[y, x] + IMAGE[y, x + 1], 3, 0, 0),  # two loads and the store
        (IMAGE[y, 2 * x], 1, 1, 0),
        (IMAGE[y, 2 * x + 1] + IMAGE[y, 3], 2, 1, 0),  # a load that is the same in all lanes needs no shuffle
        (IMAGE[y, x // 2], 1, 0, 1),
        (IMAGE[x % 8, y], 1, 0, 1),
    ],
)
def test_accesses_by_how_lanes_go_about_them(value: Expr, wide: float, strided: int, gathered: int) -> None:
    work = work_of(value)
    assert (work.wide, work.strided, work.gathered) == (wide, strided, gathered)


def test_what_keeps_vectors_from_being_formed() -> None:
    a, b = IMAGE[y, x], IMAGE[y, x + 1]
    assert work_of(select((a > 0) & (b > 0), a, b)).branches == 1
    assert work_of(select(a > 0, a, b)).branches == 0
    assert work_of(exp(a)).calls == 1
    scalar = counts_of(*pointwise(exp(a)), 1, 256, 1, 1)
    assert scalar["calls"] == H * W and scalar["scalar"] > 0 and scalar["vector_accesses"] == 0


def test_lanes_with_several_points_in_a_row_access_memory_with_a_stride() -> None:
    kernel = pointwise(IMAGE[y, x] * 2)
    together, apart = counts_of(*kernel, 4, 128, 1, 1), counts_of(*kernel, 4, 128, 1, 2)
    assert together["strided_accesses"] == 0 < together["vector_accesses"]
    assert apart["vector_accesses"] == 0 < apart["strided_accesses"]


def test_the_rest_of_a_row_is_scalar() -> None:
    kernel = pointwise(IMAGE[y, x] * 2)
    whole, rest = counts_of(*kernel, 4, 256, 1, 1), counts_of(*kernel, 4, 250, 1, 1)
    assert whole["scalar"] == 0 and whole["vector_accesses"] == 2 * H * W / 16
    assert whole["rows"] == H * W / 256
    assert rest["scalar"] > 0


def test_narrow_elements_make_longer_vectors() -> None:
    f = Func("f")
    f[y, x] = SHORT[y, x] + 1
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"short": (H, W)})
    kernel = Featurizer(bound, CPU), Structure((StageId("f"),))
    assert counts_of(*kernel, 4, 64, 1, 1)["scalar"] == 0
    assert counts_of(*kernel, 4, 16, 1, 1)["vector_accesses"] == 0  # half a vector


def test_rows_that_are_read_side_by_side_lose_the_prefetcher() -> None:
    f = Func("f")
    f[y, x] = IMAGE[x, y]
    bound = bind(Pipeline([f.over(y=(0, W), x=(0, W))]), {"image": (W, W)})
    kernel = Featurizer(bound, CPU), Structure((StageId("f"),))
    few, many = counts_of(*kernel, 1, 32, 1, 1), counts_of(*kernel, 1, 256, 1, 1)
    assert few["streams"] == 0
    assert many["streams"] == pytest.approx(2 * W * W / 16)  # no more than there are cache lines


def test_few_running_sums_wait_and_many_go_to_memory() -> None:
    k = RDom("k", k=(0, 128))
    left, right = Input("left", float32, 2), Input("right", float32, 2)
    f = Func("f")
    f[y, x] = 0.0
    f[y, x] += left[y, k.k] * right[k.k, x]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"left": (H, 128), "right": (128, W)})
    kernel = Featurizer(bound, CPU), Structure((StageId("f", 0), StageId("f", 1)))
    few, enough, many = (counts_of(*kernel, 1, n, s, 1) for n, s in ((16, 1), (64, 4), (256, 8)))
    assert few["stalls"] > enough["stalls"] == many["stalls"] == 0
    assert many["vector_accesses"] > enough["vector_accesses"] == few["vector_accesses"]


def test_blocks_are_shared_by_the_cores() -> None:
    featurizer, structure = pointwise(IMAGE[y, x])
    model = featurizer.model(structure)
    features = model.evaluate(np.array([[8, 256, 8, 1]], np.int64)).features  # one row of four blocks
    alone, three = (CpuModel(replace(CPU, multiprocessors=n)).counts(model, features)[0] for n in (1, 3))
    work = [k for k, name in enumerate(CPU_COMPONENTS) if name != "kernels"]
    assert three[work] == pytest.approx(alone[work] / 2)  # the core with most has two of four
    kernels = CPU_COMPONENTS.index("kernels")
    assert three[kernels] == alone[kernels] == 1


def test_a_batch_costs_what_its_candidates_cost_alone_and_parts_have_names() -> None:
    around = IMAGE.clamped()
    g, f = Func("g"), Func("f")
    g[y, x] = around[y, x] * 2
    f[y, x] = g[y, x] + g[y + 1, x]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    featurizer = Featurizer(bound, CPU)
    inlined = frozenset(set(bound.funcs) - {"f", "g"})
    fused = Structure((StageId("f"),), (Spot("g", Level.BLOCK, StageId("f")),), inlined)
    alone = Structure((StageId("g"),), inlined=inlined)
    models = [featurizer.model(s) for s in (fused, alone)]
    tables = [np.array([[2, 64, 4, 1, 3, 64], [2, 128, 8, 1, 3, 128]], np.int64), np.array([[4, 256, 1, 1]], np.int64)]
    cpu = CpuModel(CPU)
    together = cpu.cost(featurizer.evaluate(models, tables))
    one_by_one = [
        CpuModel.total(cpu.counts(m, m.evaluate(row[None]).features))[0]
        for m, table in zip(models, tables, strict=True)
        for row in table
    ]
    assert together == pytest.approx(one_by_one)
    parts = cpu.parts(models[1], models[1].evaluate(tables[1]).features)
    assert tuple(parts) == tuple(CPU_RATES)


def test_the_search_fuses_a_chain_of_stencils_on_a_cpu() -> None:
    around = IMAGE.clamped()
    first, second = Func("first"), Func("second")
    first[y, x] = around[y, x - 1] + around[y, x] + around[y, x + 1]
    second[y, x] = first[y - 1, x] + first[y, x] + first[y + 1, x]
    bound = bind(Pipeline([second.over(y=(0, 512), x=(0, 2048))]), {"image": (512, 2048)})
    best = Beam().search(bound, get_target("cpu")).best
    assert len(best.kernels) == 1
