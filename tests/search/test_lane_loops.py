"""Lane loops of a kernel's nests: dimensions of root and fused producers, boundary conditions, scans."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch, NestOrder
from autosched.lang.dtypes import float16, float32
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.schedule.types import Level, StageId
from autosched.search.cost.boundary_conditions import boundaries
from autosched.search.cost.cpu.kernel_costs import CpuKernelCosts
from autosched.search.cost.cpu.lane_costs import LaneWorks
from autosched.search.cost.cpu.lane_loops import LaneLoops, lane_loops
from tests.search.cpu_cases import CPU, IMAGE, H, W, counts_of, evaluated, rows_of, x, y

a, b = Var("a"), Var("b")
HALVES = Input("halves", float16, 2)


@pytest.mark.parametrize(
    ("around", "expected"),
    [
        (IMAGE.mirrored(x=(8, W)), [("x", 6, 2, False)]),
        (IMAGE.mirrored(x=(W - 4, W)), [("x", W - 6, 2, True)]),  # several reflections
        (IMAGE.mirrored(x=(2, W)), [("x", 0, 2, False)]),
        (IMAGE.wrapped(), [("x", 0, 2, True)]),
        (IMAGE.wrapped(y=(0, H)), []),
        (IMAGE.mirrored(y=(0, H // 2 - 1)), [("y", 0, H // 2 + 1, True)]),
        (IMAGE.mirrored(y=(0, H // 2)), [("y", 0, H // 2, False)]),  # as much again
        (IMAGE.mirrored_without_edge(y=(0, H // 2)), [("y", 0, H // 2, True)]),
        (IMAGE.mirrored_without_edge(y=(0, H // 2 + 1)), [("y", 0, H // 2 - 1, False)]),
    ],
)
def test_boundary_conditions_act_beyond_the_ranges_that_they_are_given(
    around: Func, expected: list[tuple[str, int, int, bool]]
) -> None:
    f, inside = Func("f"), Func("inside")
    f[y, x] = around[y, x + 2]
    inside[y, x] = around[y, x]
    outputs = [f.over(y=(0, H), x=(0, W)), inside.over(y=(0, 1), x=(2, 3))]  # that some of it is there
    bound = bind(Pipeline(outputs), {"image": (H, W + 2 * (around.boundary_ranges.keys() == {"y"}))})
    found = [(e.dim, e.below, e.above, e.remainder) for e in boundaries(bound.funcs[around.name])]
    assert found == expected


def test_boundary_conditions_of_tuples() -> None:
    pair, f = Func("pair"), Func("f")
    pair[y, x] = IMAGE[y, x], IMAGE[y, x] * 2
    around = pair.wrapped(x=(0, W))
    f[y, x] = around[y, x + W][0] + around[y, x][1]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    assert [(e.dim, e.above) for e in boundaries(bound.funcs[around.name])] == [("x", W)]


def test_periodic_extensions_are_no_boundaries() -> None:
    before, f = Func("before"), Func("f")
    before[y, x] = IMAGE.wrapped()[y, x - 1] * 2
    around = before.wrapped(x=(0, W))
    f[y, x] = around[y, x + 3]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    assert list(boundaries(bound.funcs[around.name])) == []
    assert bound.funcs["before"].region[1] == (3, W + 2)


@pytest.mark.parametrize("step", [1, 3])
def test_strided_lanes_beyond_a_mirrored_end(step: int) -> None:
    around, f = IMAGE.mirrored_without_edge(), Func("f")
    f[y, x] = around[y, step * x + 6]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W // step))]), {"image": (H, W)})
    model = Featurizer(bound, CPU).model(KernelSketch((StageId("f"),), inlined=frozenset(set(bound.funcs) - {"f"})))
    beyond = sum(step * lane + 6 >= W for lane in range(W // step))
    ends = LaneWorks(model, {}).of(StageId("f"), "x").ends
    assert (ends.low, ends.high) == (0, beyond)


def test_lanes_before_a_mirrored_beginning() -> None:
    around, f = IMAGE.mirrored(), Func("f")
    f[y, x] = around[y, x - 3]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    model = Featurizer(bound, CPU).model(KernelSketch((StageId("f"),), inlined=frozenset(set(bound.funcs) - {"f"})))
    ends = LaneWorks(model, {}).of(StageId("f"), "x").ends
    assert (ends.low, ends.high) == (3, 0)


def test_boundary_share_is_independent_of_names() -> None:
    def borders(*dims: Var) -> float:
        around, f = IMAGE.wrapped(), Func("f")
        f[dims] = around[dims[0], dims[1] + 2]
        found = rows_of(f, 1, 64, 1, 1, inlined=frozenset({around.name}))
        assert found.of("periodic")[0] == 1
        return float(found.boundary_share[0])

    assert borders(y, x) == borders(a, b) == borders(x, y) == 1 / 16


def of_columns(*locations: ComputeLocation) -> LaneLoops:
    """Return the nests of a kernel whose fused producer has the root's dimensions in reverse order."""
    around, g, f, h = IMAGE.wrapped(), Func("g"), Func("f"), Func("h")
    g[x, y] = around[y, x + 2] * 2
    h[y, x] = g[x, y] + 1
    f[y, x] = (h if len(locations) > 1 else g)[(y, x) if len(locations) > 1 else (x, y)]
    own = 40, 4
    return rows_of(f, 4, 40, 1, 1, *own, locations=locations, inlined=frozenset({around.name}))


@pytest.mark.parametrize("through", [False, True])
def test_fused_producers_are_cut_with_their_root(through: bool) -> None:
    """Blocks of 4 x 40 points, 26 in a row, the last with 24; lanes of the fused producer are along y, not cut."""
    block = ComputeLocation("g", Level.BLOCK, StageId("f"))
    found = of_columns(block, *([ComputeLocation("h", Level.THREAD, StageId("f"))] if through else []))
    assert found.cut_share[0] == 1 / 26 and found.end_lanes[0] == 24
    assert found.cut_share[1] == 0 and found.end_lanes[1] == found.lanes[1] == 4
    assert found.boundary_share[1] == pytest.approx(1 / 26)


@pytest.mark.parametrize(
    ("earlier", "waits"),
    [
        (lambda k: k - 1, 1),
        (lambda k: k - 3, 1 / 3),
        (lambda k: k, 0),  # its own point, as other sums
        (lambda k: k + 1, 0),  # not written by an earlier term
        (lambda k: H - 1 - k, 0),
        (lambda k: 2, 0),
    ],
)
def test_scan_distance_of_earlier_terms(earlier: object, waits: float) -> None:
    assert callable(earlier)
    k, f = RDom("k", k=(3, H - 1)), Func("f")
    f[y, x] = IMAGE[y, x]
    f[k.k, x] += f[earlier(k.k), x]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    work = LaneWorks(Featurizer(bound, CPU).model(KernelSketch((StageId("f", 1),))), {}).of(StageId("f", 1), "x")
    assert work.chains.scans == waits


def test_scan_of_a_backward_loop() -> None:
    k, f = RDom("k", k=(1, H - 1)), Func("f")
    f[y, x] = IMAGE[y, x]
    f[H - 1 - k.k, x] += f[H - k.k, x]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    model = Featurizer(bound, CPU).model(KernelSketch((StageId("f", 1),)))
    assert LaneWorks(model, {}).of(StageId("f", 1), "x").chains.scans == 1


def test_scan_skips_loops_of_one_term() -> None:
    k, f = RDom("k", y=(1, H - 1), one=(0, 1)), Func("f")
    f[y, x] = IMAGE[y, x]
    f[k.y, x] += f[k.y - 1, x] * (k.one + 1.0)
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    model = Featurizer(bound, CPU).model(KernelSketch((StageId("f", 1),)))
    assert LaneWorks(model, {}).of(StageId("f", 1), "x").chains.scans == 1


def test_scan_distance_beyond_the_loop() -> None:
    k, f = RDom("k", k=(30, 10)), Func("f")
    f[y, x] = IMAGE[y, x]
    f[k.k, x] += f[k.k - 30, x]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    model = Featurizer(bound, CPU).model(KernelSketch((StageId("f", 1),)))
    assert LaneWorks(model, {}).of(StageId("f", 1), "x").chains.scans == 0


@pytest.mark.parametrize("points", [1, 2, 4])
def test_counts_of_strided_sums_are_not_negative(points: int) -> None:
    k, f = RDom("k", k=3), Func("f")
    f[y, x] = 0.0
    f[y, x] += IMAGE[y, x + k.k]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W + 2)})
    found = counts_of(Featurizer(bound, CPU), KernelSketch((StageId("f", 1),)), 1, 64, 1, points)
    assert min(found.values()) >= 0


def test_scan_needs_the_innermost_loop() -> None:
    k, f = RDom("k", y=(1, H - 1), x=(1, W - 1)), Func("f")
    f[y, x] = IMAGE[y, x]
    f[k.y, k.x] += f[k.y - 1, k.x]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    model = Featurizer(bound, CPU).model(KernelSketch((StageId("f", 1),)))
    assert LaneWorks(model, {}).of(StageId("f", 1), None).chains.scans == 0


@pytest.mark.parametrize(
    ("step", "points", "shuffled"), [(1, 4, True), (2, 2, True), (3, 1, True), (2, 4, False), (3, 2, False)]
)
def test_steps_and_points_of_lanes_multiply(step: int, points: int, shuffled: bool) -> None:
    f = Func("f")
    f[y, x] = IMAGE[y, step * x] * 2
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, 4 * W)})
    found = counts_of(Featurizer(bound, CPU), KernelSketch((StageId("f"),)), 4, 64 // points, 1, points)
    assert (found["gathered_accesses"] > 0) != shuffled


@pytest.mark.parametrize(
    ("load", "points", "vectors"),
    [
        (lambda x, y: IMAGE[x, y], 1, False),  # rows of 8192 elements
        (lambda x, y: IMAGE[3 * x, y], 1, True),
        (lambda x, y: IMAGE[x, y], 3, True),  # lanes three rows apart
        (lambda x, y: IMAGE[y, 8 * x], 1, True),  # a vector holds two lanes
        (lambda x, y: IMAGE[y, 32 * x], 1, False),
        (lambda x, y: IMAGE[y, 12 * x], 1, True),
        (lambda x, y: IMAGE[y, 12 * x] + IMAGE[y, 12 * x + 5], 1, False),
        (lambda x, y: IMAGE[y, 12 * x] + IMAGE[y + 1, 12 * x + 5], 1, True),
        (lambda x, y: HALVES[y, 12 * x], 1, False),
    ],
)
def test_vectors_of_far_lanes(load: Callable[[Expr, Expr], Expr], points: int, vectors: bool) -> None:
    f = Func("f")
    f[y, x] = load(x, y) * 2
    pipeline = Pipeline([f.over(y=(0, H), x=(0, 192))])
    bound = bind(pipeline, {i.name: (1024, 8192) for i in pipeline.inputs})
    found = counts_of(Featurizer(bound, CPU), KernelSketch((StageId("f"),)), 4, 32, 1, points)
    assert (found["vector_arithmetic"] > 0) == vectors


@pytest.mark.parametrize(
    ("threads", "vectors"),
    [
        ((2, 64), True),  # gcc unrolls the loop over both rows
        ((2, 8), False),  # few points to make vectors of
        ((8, 32), False),  # too many rows
    ],
)
def test_few_far_lanes_are_unrolled(threads: tuple[int, int], vectors: bool) -> None:
    f = Func("f")
    f[y, x] = IMAGE[y, x] * 2 + 1
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    along_columns = NestOrder(StageId("f"), threads=("y", "x"))
    found = counts_of(Featurizer(bound, CPU), KernelSketch((StageId("f"),), orders=(along_columns,)), *threads, 1, 1)
    assert found["scattered_accesses"] == (0 if vectors else 2 * H * W)
    assert (found["vector_accesses"] == 2 * H * W / 16) == vectors


def batched(loads: str, *params: int) -> LaneLoops:
    """Return the nests of a sum of products with one factor whose lanes are far apart."""
    z, k, f = Var("z"), RDom("k", k=(0, 64)), Func("f")
    left, right = Input("left", float32, 3), Input("right", float32, len(loads))
    f[z, y, x] = 0.0
    f[z, y, x] += left[z, y, k.k] * right[tuple({"z": z, "x": x, "k": k.k}[d] for d in loads)]
    sizes = {"z": 8, "x": 64, "k": 64}
    shapes = {"left": (8, 16, 64), "right": tuple(sizes[d] for d in loads)}
    bound = bind(Pipeline([f.over(z=(0, 8), y=(0, 16), x=(0, 64))]), shapes)
    kernel = Featurizer(bound, CPU), KernelSketch((StageId("f", 0), StageId("f", 1)))
    return lane_loops(evaluated(*kernel, *params), lambda model: CpuKernelCosts(model, {}))


@pytest.mark.parametrize(
    ("loads", "points", "spared"),
    [
        ("zxk", (1, 4, 1), 3 / 4),  # the same for all points along y
        ("zxk", (4, 1, 1), 0),  # another one for each point along z
        ("zxk", (4, 2, 1), 1 / 2),
        ("xk", (4, 2, 1), 7 / 8),
        ("xk", (1, 1, 1), 0),
    ],
)
def test_points_share_uniform_loads(loads: str, points: tuple[int, ...], spared: float) -> None:
    found = batched(loads, 1, 4, 32, *points)
    update = int(np.flatnonzero(found.of("even"))[0])
    assert found.shared_loads[update] == spared
    assert found.all_shared[update] == (spared > 0)


def test_far_stores_are_not_shared() -> None:
    f = Func("f")
    f[y, x] = IMAGE[y, x]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, 8))]), {"image": (H, 8)})
    found = lane_loops(
        evaluated(Featurizer(bound, CPU), KernelSketch((StageId("f"),)), 32, 1, 1, 4),
        lambda model: CpuKernelCosts(model, {}),
    )
    assert found.of("even")[0] > 0 and not found.all_shared[0]
