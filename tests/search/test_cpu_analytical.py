"""Counts of the CPU timing model, for kernels small enough to count by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from autosched.analysis.bind import bind
from autosched.codegen.c import print_c
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.lang.dtypes import DType, bfloat16, float16, float32, int32, uint8, uint16
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast, clamp, exp, select, tanh
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.lower.program import lower
from autosched.schedule.types import Level, Schedule, StageId
from autosched.search.cost.cpu.analytical import SCAN, SCATTERED_STORE, CpuModel
from autosched.search.cost.cpu.cache_traffic import MOST_MISSED, WAYS
from autosched.search.cost.cpu.coefficients import CPU_COMPONENTS, RATES, rates_of
from autosched.search.cost.cpu.lane_costs import LaneCosts, LaneWorks
from autosched.search.cost.cpu.stage_costs import BFLOAT16_LOAD, BFLOAT16_ROUND
from autosched.search.cost.gpu_analytical import AnalyticalModel, analytical_model
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.results import RankedSchedule
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.prefer_baseline import prefer_baseline, simplest_within
from autosched.search.strategies.protocol import Beam
from autosched.search.strategies.sioutas.strategy import Sioutas
from autosched.target import get_target
from tests.schedule.building import kernel as building_kernel
from tests.schedule.building import root, schedule
from tests.search.cpu_cases import CPU, IMAGE, H, W, counts_of, evaluated, x, y

CHAIN = Func("chain")
Floats = NDArray[np.float64]


def pointwise(value: Expr) -> tuple[Featurizer, KernelSketch]:
    """Return the kernel of one Func over an image of H x W points."""
    f = Func("f")
    f[y, x] = value
    pipeline = Pipeline([f.over(y=(0, H), x=(0, W))])
    bound = bind(pipeline, {i.name: (W, 4 * W) for i in pipeline.inputs})
    return Featurizer(bound, CPU), KernelSketch((StageId("f"),))


CHAIN[y, x] = IMAGE[y, x] * 2
SHORT = Input("short", uint16, 2)


def work_of(value: Expr) -> LaneCosts:
    featurizer, sketch = pointwise(value)
    return LaneWorks(featurizer.model(sketch), {}).of(StageId("f"), "x")


def test_factory_by_kind_of_target() -> None:
    assert isinstance(analytical_model(CPU), CpuModel)
    assert isinstance(analytical_model(get_target("h200")), AnalyticalModel)


@pytest.mark.parametrize(
    ("value", "wide", "near", "far", "fixed"),
    [
        (IMAGE[y, x] + IMAGE[y, x + 1], 3, 0, 0, 0),  # two loads and the store
        (IMAGE[y, 2 * x], 1, 1, 0, 0),
        (IMAGE[y, 2 * x + 1] + IMAGE[y, 3], 1, 1, 0, 1),
        (IMAGE[y, x // 5], 1, 0, 1, 0),
        (IMAGE[y, x // 2], 0.5, 1, 0, 0),  # two lanes share one load, whose elements are shuffled
        (IMAGE[y, x // 2] + IMAGE[y, (x + 1) // 2], 1, 1, 0, 0),  # k and k + 1
        (IMAGE[y, x // 2] + IMAGE[y, x], 0.5, 2, 0, 0),
        (IMAGE[y, 2 * x // 4] + IMAGE[y, 3], 0.5, 1, 0, 1),
        (IMAGE[y, x // 2] + IMAGE[y, 4 * x], 1, 1, 1, 0),  # unrolled by two, lanes would be too far apart
        (IMAGE[y, x // 2] + IMAGE[x % 8, y], 1, 0, 2, 0),
        (IMAGE[x % 8, y], 1, 0, 1, 0),
        (IMAGE[clamp(cast(int32, IMAGE[y, 0]), 0, W - 1), x], 2, 0, 0, 1),  # a data-dependent row
    ],
)
def test_access_classes(value: Expr, wide: float, near: int, far: int, fixed: int) -> None:
    work = work_of(value)
    assert (work.accesses.wide, work.accesses.near, work.accesses.far, work.accesses.fixed) == (wide, near, far, fixed)


def test_vector_math_moves_calls_into_vectors() -> None:
    a = IMAGE[y, x]
    assert work_of(exp(a)).values.calls == 1
    assert work_of(tanh(a)).values.calls > 1  # a more expensive one
    found = evaluated(*pointwise(exp(a)), 1, 256, 1, 1)
    vectors, scalar = (
        dict(zip(CPU_COMPONENTS, CpuModel(CPU, vector_math=has).counts(found)[0].tolist(), strict=True))
        for has in (True, False)
    )
    assert scalar["calls"] == H * W and scalar["scalar"] > 0 and scalar["vector_accesses"] == 0
    assert vectors["calls"] == vectors["scalar"] == 0
    assert vectors["vector_arithmetic"] > 10 * vectors["vector_accesses"] > 0


def test_quotients_of_integers_prevent_vectors() -> None:
    a = IMAGE[y, x]
    whole = cast(int32, a)
    assert work_of(whole % (whole + 1)).values.serial == work_of(whole // (whole + 1)).values.serial == 1
    remainder = work_of(a % 3.0).values
    assert remainder.serial == 0 < remainder.calls  # vectors as for elementary functions
    assert work_of(select((a > 0) & (a < 1), a, -a)).values.serial == 0  # conditions are values like others


def test_narrow_elements_cannot_be_gathered() -> None:
    assert work_of(IMAGE[y, x // 5]).values.serial == 0
    assert work_of(cast(float32, SHORT[y, x // 5])).values.serial == 1
    assert work_of(cast(float32, SHORT[y, x // 2])).values.serial == 0
    gathered = counts_of(*pointwise(IMAGE[y, x // 5]), 4, 256, 1, 1)
    one_by_one = counts_of(*pointwise(cast(float32, SHORT[y, x // 5])), 4, 256, 1, 1)
    assert gathered["gathered_accesses"] == H * W == one_by_one["scattered_accesses"]
    assert gathered["scattered_accesses"] == 0 == one_by_one["gathered_accesses"]


@pytest.mark.parametrize(
    ("image", "step", "lanes", "serial", "put"),
    [
        (IMAGE, 8, 16, 0, 0), (IMAGE, 8, 8, 0, 1), (SHORT, 8, 16, 1, 0), (SHORT, 8, 8, 1, 1), (SHORT, 2, 16, 0, 0),
        (IMAGE, 1, 16, 0, 0), (IMAGE, 1, 8, 0, 1),
    ],
)  # fmt: skip
def test_scatter_needs_processor_support(image: Input, step: int, lanes: int, serial: int, put: int) -> None:
    counts, t = Func("counts"), RDom("t", t=step)
    z = Var("z")
    value = image[y, step * x + t.t]
    counts[z, y, x] = 0.0
    counts[clamp(cast(int32, value), 0, 3), y, x] += cast(float32, value)
    bound = bind(Pipeline(counts.over(z=(0, 4), y=(0, H), x=(0, 64))), {image.name: (H, 64 * step)})
    model = Featurizer(bound, replace(CPU, warp_size=lanes)).model(KernelSketch((StageId("counts", 1),)))
    found = LaneWorks(model, {}).of(StageId("counts", 1), "x")
    assert (found.values.serial, found.scattered_stores) == (serial, put)


def test_scalar_stores_follow_vectorised_values() -> None:
    """Indices of scatters are computed in vectors; the stores take longer on some processors."""
    counts, z = Func("counts"), Var("z")
    counts[z, y, x] = 0.0
    counts[clamp(cast(int32, IMAGE[y, x]), 0, 3), y, x] += 1.0
    bound = bind(Pipeline(counts.over(z=(0, 4), y=(0, H), x=(0, W))), {"image": (H, W)})
    sketch = KernelSketch((StageId("counts", 1),))
    wide, short = (counts_of(Featurizer(bound, replace(CPU, warp_size=n)), sketch, 1, 256, 1, 1) for n in (16, 8))
    assert wide["vector_arithmetic"] == short["vector_arithmetic"] > 0
    assert wide["gathered_accesses"] == short["gathered_accesses"] == 2 * H * W
    assert short["scalar"] - wide["scalar"] == SCATTERED_STORE * H * W


def test_narrow_elements_at_quotients_prevent_vectors() -> None:
    quotients, even = work_of(cast(float32, SHORT[x // 2, y])), work_of(cast(float32, SHORT[x, y]))
    assert (quotients.values.serial, quotients.accesses.far) == (1, 1)
    assert (even.values.serial, even.accesses.far) == (0, 1)


def test_quotients_of_other_dimensions_leave_lanes_neighbours() -> None:
    beside, along = work_of(IMAGE[y, x + y // 2]), work_of(IMAGE[y, y + x // 2])
    assert (beside.accesses.unit, beside.accesses.far) == (2, 0)
    assert (along.accesses.unit, along.accesses.far) == (0.5, 0)  # two lanes load one element


def test_stride_of_a_short_dimension_is_near() -> None:
    pixels, f = Input("pixels", uint8, 3), Func("f")
    f[y, x] = cast(float32, pixels[y, x, 1])
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"pixels": (H, W, 3)})
    model = Featurizer(bound, CPU).model(KernelSketch((StageId("f"),)))
    by_x, by_y = (LaneWorks(model, {}).of(StageId("f"), dim) for dim in ("x", "y"))
    assert (by_x.accesses.near, by_x.accesses.far, by_y.accesses.far) == (1, 0, 2)  # across rows the store is far, too


@pytest.mark.parametrize(("storage", "unit", "far"), [((), 2, 0), (("x", "y"), 1, 1)])
def test_lanes_along_columns_of_a_buffer_are_far(storage: tuple[str, ...], unit: int, far: int) -> None:
    g, f = Func("g"), Func("f")
    g[y, x] = IMAGE[y, x] * 2
    f[y, x] = g[y, x] + 1
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (W, 4 * W)})
    location = ComputeLocation("g", Level.BLOCK, StageId("f"), storage=storage)
    work = LaneWorks(Featurizer(bound, CPU).model(KernelSketch((StageId("f"),), (location,))), {}).of(StageId("f"), "x")
    assert (work.accesses.unit, work.accesses.far) == (unit, far)


def test_private_sums_are_contiguous() -> None:
    k, c, f = RDom("k", k=(0, 3)), Var("c"), Func("f")
    pixels = Input("pixels", float32, 3)
    f[y, x, c] = 0.0
    f[y, x, c] += pixels[y, x, k.k]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W), c=(0, 3))]), {"pixels": (H, W, 3)})
    works = LaneWorks(Featurizer(bound, CPU).model(KernelSketch((StageId("f", 0), StageId("f", 1)))), {})
    first, update = (works.of(StageId("f", n), "x") for n in (0, 1))
    assert (first.accesses.near, first.accesses.unit) == (1, 0)  # written to memory once
    assert (update.accesses.near, update.accesses.unit, update.accesses.result_wide) == (1, 2, 2)


def test_uniform_values_are_computed_once() -> None:
    same, differs = work_of(IMAGE[y, x] * exp(IMAGE[y, 0])), work_of(IMAGE[y, x] * exp(IMAGE[y, x]))
    assert (same.values.calls, differs.values.calls) == (0, 1)
    assert same.values.once > 0 == differs.values.once
    assert same.values.arithmetic == 1 and differs.values.arithmetic > 10  # the product alone, and functions of vectors


def test_indices_of_inlined_funcs_vary_with_their_callers() -> None:
    inner, f = Func("inner"), Func("f")
    r = Var("r")
    inner[r] = exp(IMAGE[r, 0])
    f[y, x] = inner[y] + inner[x]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, H))]), {"image": (W, 4 * W)})
    model = Featurizer(bound, CPU).model(KernelSketch((StageId("f"),), inlined=frozenset(["inner"])))
    assert LaneWorks(model, {}).of(StageId("f"), "x").values.calls == 2


@pytest.mark.parametrize(
    ("points", "arithmetic", "divisions"),
    [
        ([(y, x, 0)], 1 + 1, 1),
        ([(y, x, 0), (y, x, 1)], 1 + 2 + 1, 1),  # the last is the sum of both
        ([(y, x, 0), (y + 1, x, 0)], 2 + 2 + 1, 2),
        ([(y, x, 0), (y + 1, x, 0), (y, x, 1), (y + 1, x, 1)], 2 + 4 + 3, 2),
    ],
)
def test_subexpressions_shared_by_calls_are_computed_once(
    points: list[tuple[Expr, Expr, int]], arithmetic: float, divisions: float
) -> None:
    """The Func has a division and a sum that do not depend on ``c``, and a product that does."""
    inner, f = Func("inner"), Func("f")
    c = Var("c")
    inner[y, x, c] = (IMAGE[y, x] / IMAGE[y, x + 1] + 1.0) * IMAGE[c, x]
    first, *others = [inner[p] for p in points]
    f[y, x] = sum(others, first)
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H + 1, W + 1)})
    works = LaneWorks(Featurizer(bound, CPU).model(KernelSketch((StageId("f"),), inlined=frozenset(["inner"]))), {})
    work = works.of(StageId("f"), "x")
    assert (work.values.arithmetic, work.values.divisions) == (arithmetic, divisions)
    inner = works.evaluated(StageId("f"), "x")["inner"]
    assert work.values.arithmetic == inner.arithmetic * len(points) + len(points) - 1


def test_half_precision_is_rounded_after_every_operation() -> None:
    half = Input("half", float16, 2)
    rounded, plain = work_of(half[y, x] * half[y, x + 1]), work_of(IMAGE[y, x] * IMAGE[y, x + 1])
    assert rounded.values.arithmetic > 20 * plain.values.arithmetic


def test_bfloat16_is_shifted_and_rounded() -> None:
    """Two shifts, and a rounding only where float32 may hold another number."""
    image = Input("image", bfloat16, 2)
    plain = work_of(IMAGE[y, x] * IMAGE[y, x + 1]).values
    product, negated = work_of(image[y, x] * image[y, x + 1]).values, work_of(-image[y, x]).values
    assert product.arithmetic == plain.arithmetic + 2 * BFLOAT16_LOAD[0] + BFLOAT16_ROUND[0]
    assert negated.arithmetic == 1 + BFLOAT16_LOAD[0]


def test_several_points_per_lane_give_strided_accesses() -> None:
    kernel = pointwise(IMAGE[y, x] * 2)
    together, apart, far = (counts_of(*kernel, 4, 64, 1, n) for n in (1, 2, 8))
    assert together["strided_accesses"] == 0 < together["vector_accesses"]
    assert apart["vector_accesses"] == 0 < apart["strided_accesses"]
    assert far["strided_accesses"] == 0 < far["scattered_accesses"]  # no `omp simd` for gcc


def test_the_rest_of_a_row_is_scalar() -> None:
    kernel = pointwise(IMAGE[y, x] * 2)
    whole, rest = counts_of(*kernel, 4, 256, 1, 1), counts_of(*kernel, 4, 250, 1, 1)
    assert whole["scalar"] == 0 and whole["vector_accesses"] == 2 * H * W / 16
    assert whole["rows"] == H * W / 256
    assert rest["scalar"] > 0


def test_rows_that_end_within_a_block_have_fewer_lanes_there() -> None:
    def scalar(width: int) -> float:
        f = Func("f")
        f[y, x] = IMAGE[y, x] * 2
        bound = bind(Pipeline([f.over(y=(0, H), x=(0, width))]), {"image": (H, width)})
        return counts_of(Featurizer(bound, CPU), KernelSketch((StageId("f"),)), 4, 64, 1, 1)["scalar"]

    assert scalar(640) == scalar(600) == 0 < scalar(606)  # 600 leaves 24 lanes over: vectors of 16 and of eight


def test_shorter_vectors_cover_the_rest_of_a_row() -> None:
    kernel = pointwise(IMAGE[y, x] * 2)
    half, odd = counts_of(*kernel, 4, 8, 1, 1), counts_of(*kernel, 4, 6, 1, 1)
    assert half["scalar"] == 0 and half["vector_accesses"] == 2 * H * W / 8
    assert odd["vector_accesses"] == pytest.approx(2 * 171 * H)  # of four lanes, which the last block has
    assert odd["scalar"] > 0


def test_the_last_vector_of_a_strided_load_would_read_too_far() -> None:
    short, long = (counts_of(*pointwise(IMAGE[y, 2 * x]), 4, n, 1, 1)["strided_accesses"] for n in (32, 256))
    assert short == H * W * 28 / 32  # vectors of 16, eight and four
    assert long == H * W * 252 / 256


@pytest.mark.parametrize(("channels", "has_gaps"), [((0, 1, 2), False), ((0, 1), True), ((2, 0, 1), False)])
def test_strided_loads_without_gaps_do_not_read_too_far(channels: tuple[int, ...], has_gaps: bool) -> None:
    pixels, f = Input("pixels", float32, 3), Func("f")
    f[y, x] = sum((pixels[y, x, c] for c in channels), start=cast(float32, 0))
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"pixels": (H, W, 3)})
    kernel = Featurizer(bound, CPU), KernelSketch((StageId("f"),))
    assert (LaneWorks(kernel[0].model(kernel[1]), {}).of(StageId("f"), "x").accesses.gaps > 0) == has_gaps
    assert (counts_of(*kernel, 4, 64, 1, 1)["scalar"] > 0) == has_gaps


def test_narrow_elements_make_longer_vectors() -> None:
    kernel = pointwise(SHORT[y, x] + 1)
    long, half = counts_of(*kernel, 4, 64, 1, 1), counts_of(*kernel, 4, 16, 1, 1)
    assert long["scalar"] == half["scalar"] == 0
    assert half["vector_accesses"] == 2 * long["vector_accesses"]


def test_boundary_blocks_compute_remainders() -> None:
    def kernel(kind: str, image: Input) -> tuple[Featurizer, KernelSketch]:
        around, f = getattr(image, kind)(), Func("f")
        f[y, x] = around[y, x - 1] + around[y, x + 1]
        bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {image.name: (H, W)})
        return Featurizer(bound, CPU), KernelSketch((StageId("f"),), inlined=frozenset(set(bound.funcs) - {"f"}))

    few, many = (counts_of(*kernel("wrapped", IMAGE), 1, n, 1, 1) for n in (512, 64))
    assert few["remainders"] == 2 * H * W  # every block is at the border
    assert 0 < many["remainders"] < few["remainders"] / 2
    assert counts_of(*kernel("clamped", IMAGE), 1, 64, 1, 1)["remainders"] == 0
    assert counts_of(*kernel("mirrored", IMAGE), 1, 64, 1, 1)["remainders"] == 0
    bytes_ = counts_of(*kernel("wrapped", Input("bytes", uint8, 2)), 1, 512, 1, 1)
    assert bytes_["remainders"] == 0 < bytes_["scalar_remainders"]
    assert bytes_["vector_arithmetic"] == 0


@pytest.mark.parametrize(
    ("kind", "dx", "remainders"),
    [
        ("mirrored", 0, False),  # the whole row is read
        ("wrapped", 0, False),
        ("mirrored", 2, False),  # a little above the last
        ("mirrored", -2, False),
        ("wrapped", 2, True),
    ],
)
def test_remainders_need_indices_beyond_an_array(kind: str, dx: int, remainders: bool) -> None:
    around, f = getattr(IMAGE, kind)(), Func("f")
    f[y, x] = around[y - 1, x + dx]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    kernel = Featurizer(bound, CPU), KernelSketch((StageId("f"),), inlined=frozenset(set(bound.funcs) - {"f"}))
    found = counts_of(*kernel, 4, 64, 1, 1)
    assert (found["remainders"] > 0) == remainders
    assert (found["ends"] > 0) == (kind == "mirrored" and dx != 0)


def test_boundary_blocks_are_at_ends_with_a_boundary_condition() -> None:
    def remainders(kind: str, dx: int, height: int) -> float:
        around, f = getattr(IMAGE, kind)(), Func("f")
        f[y, x] = around[y + height, x + dx]
        bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
        kernel = Featurizer(bound, CPU), KernelSketch((StageId("f"),), inlined=frozenset(set(bound.funcs) - {"f"}))
        return counts_of(*kernel, H, 64, 1, 1)["remainders"] / (H * W)

    assert remainders("wrapped", 2, 0) == 1 / 16  # the last of sixteen blocks along a row
    assert remainders("wrapped", 2, 4) == 1 / 16  # all blocks are at the ends of columns, so only rows count


def test_points_of_a_thread_share_far_loads() -> None:
    alone = counts_of(*pointwise(IMAGE[x, y]), 4, 256, 1, 1)
    assert alone["gathered_accesses"] == alone["vector_accesses"] == 0
    assert alone["scattered_accesses"] == H * W

    k = RDom("k", k=(0, 64))
    left, right = Input("left", float32, 2), Input("right", float32, 2)
    f = Func("f")
    f[y, x] = 0.0
    f[y, x] += left[y, k.k] * right[x, k.k]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"left": (H, 64), "right": (W, 65)})
    kernel = Featurizer(bound, CPU), KernelSketch((StageId("f", 0), StageId("f", 1)))
    one, four = (counts_of(*kernel, 4, 64, points, 1) for points in (1, 4))
    assert one["scattered_accesses"] == four["scattered_accesses"] == 0
    assert one["gathered_accesses"] == 4 * four["gathered_accesses"] == H * W * 64


def test_uniform_elements_do_not_narrow_vectors() -> None:
    byte = Input("byte", uint8, 2)
    assert work_of(IMAGE[y, x] * cast(float32, byte[y, 0])).accesses.narrowest == 4
    assert work_of(IMAGE[y, x] * cast(float32, byte[y, x])).accesses.narrowest == 1


def test_uniform_condition_computes_one_branch() -> None:
    a, b = IMAGE[y, x], IMAGE[y, x + 1]
    by_row, by_lane = (work_of(select(c < 4, a * a * 3.0, b * b * 5.0)) for c in (y, x))
    assert by_row.values.arithmetic == 1 + 2  # the choice, and the mean of both
    assert by_lane.values.arithmetic > 1 + 4


def test_fused_producer_read_at_remainders_varies() -> None:
    g, f = Func("g"), Func("f")
    g[y, x] = IMAGE[y, x] * 2
    f[y, x] = g[y, (x * 3) % 16]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (W, 4 * W)})
    model = Featurizer(bound, CPU).model(
        KernelSketch((StageId("f"),), (ComputeLocation("g", Level.THREAD, StageId("f")),))
    )
    work = LaneWorks(model, {}).of(StageId("g"), "x")
    assert work.values.once == 0 < work.values.scalar
    assert work.values.serial > 0


def test_scans_wait_for_memory() -> None:
    k = RDom("k", k=(1, H - 1))
    f, total = Func("f"), Func("total")
    f[y, x] = IMAGE[y, x]
    f[k.k, x] = f[k.k - 1, x] + f[k.k, x]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    featurizer, update = Featurizer(bound, CPU), KernelSketch((StageId("f", 1),))
    few, many = (counts_of(featurizer, update, n, 1)["stalls"] for n in (32, 256))
    assert many == (H - 2) * W / 256 * SCAN
    assert few > (H - 2) * W / 32 * SCAN  # few sums wait for each other besides
    total[x] = 0.0
    total[x] += IMAGE[k.k, x]
    bound = bind(Pipeline([total.over(x=(0, W))]), {"image": (H, W)})
    model = Featurizer(bound, CPU).model(KernelSketch((StageId("total", 1),)))
    assert LaneWorks(model, {}).of(StageId("total", 1), "x").chains.scans == 0


def test_many_open_pages_defeat_the_prefetcher() -> None:
    kernel = pointwise(IMAGE[y, x] * 2)
    one, many = counts_of(*kernel, 1, W, 1, 1), counts_of(*kernel, 64, 16, 1, 1)  # a row of the result is a page
    assert many["streams"] > 10 * one["streams"]
    assert many["streams"] <= 2 * 2 * H * W / 16  # each cache line at most twice: it begins a row, and a stream is lost


def test_partial_rows_defeat_the_prefetcher() -> None:
    kernel = pointwise(IMAGE[y, x] * 2)
    whole, half, short = (counts_of(*kernel, H, n, 1, 1)["streams"] for n in (W, W // 2, 64))
    assert short > half > whole


def test_buffer_of_a_fused_producer_costs_traffic_and_a_step() -> None:
    g, f = Func("g"), Func("f")
    g[y, x] = IMAGE[y, x] * 2
    f[y, x] = exp(g[y, x]) + g[y + 1, x]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (W, 4 * W)})
    fused = KernelSketch((StageId("f"),), (ComputeLocation("g", Level.BLOCK, StageId("f")),))
    small, large = (counts_of(Featurizer(bound, CPU), fused, n, 256, 1, 1, 1, 256) for n in (1, 63))
    assert small["buffer_bytes"] == 2 * 4 * H * W  # two rows are computed for one
    assert large["buffer_bytes"] > 2 * 4 * H * W  # 64 rows are more than the nearest cache holds
    assert small["steps"] > 0
    inlined = KernelSketch((StageId("f"),), inlined=frozenset(["g"]))
    alone = counts_of(Featurizer(bound, CPU), inlined, 1, 64, 1, 1)
    assert alone["buffer_bytes"] == 0 and alone["steps"] == pytest.approx(0, abs=1e-12)


def test_rows_shared_by_blocks_come_from_core_caches() -> None:
    tall = pointwise(IMAGE[y, x] + IMAGE[y + 1, x] + IMAGE[y + 2, x])
    counts = counts_of(*tall, 1, W, 1, 1)
    assert counts["core_bytes"] > 1.9 * 4 * H * W
    assert counts["cache_bytes"] < 2.2 * 4 * H * W


@pytest.mark.parametrize("rows", [64, 8192])
def test_arrays_beyond_the_cache_come_from_memory(rows: int) -> None:
    f = Func("f")
    f[y, x] = IMAGE[y, x] * 2
    bound = bind(Pipeline([f.over(y=(0, rows), x=(0, W))]), {"image": (rows, W)})
    found = counts_of(Featurizer(bound, CPU), KernelSketch((StageId("f"),)), 4, 256, 1, 1)
    array, cache = 4 * rows * W, CPU.l2_bytes / 2
    beyond = max(2 * array - cache, 0) / 2
    assert found["cache_bytes"] == 2 * array
    assert found["memory_bytes"] == found["memory_writes"] == pytest.approx(beyond)


def test_few_sums_stall_and_many_sums_spill() -> None:
    k = RDom("k", k=(0, 128))
    left, right = Input("left", float32, 2), Input("right", float32, 2)
    f = Func("f")
    f[y, x] = 0.0
    f[y, x] += left[y, k.k] * right[k.k, x]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"left": (H, 128), "right": (128, W)})
    kernel = Featurizer(bound, CPU), KernelSketch((StageId("f", 0), StageId("f", 1)))
    few, enough, strips, many = (counts_of(*kernel, 1, n, s, 1) for n, s in ((16, 1), (64, 4), (512, 4), (256, 16)))
    assert few["stalls"] > enough["stalls"] == strips["stalls"] == many["stalls"] == 0
    assert many["sums"] > enough["sums"] == strips["sums"] == few["sums"] == 0
    assert many["vector_accesses"] == enough["vector_accesses"] == few["vector_accesses"]


def test_short_sums_overlap_with_the_next_ones() -> None:
    def stalls(terms: int) -> float:
        k = RDom("k", k=(0, terms))
        left, right = Input("left", float32, 2), Input("right", float32, 2)
        f = Func("f")
        f[y, x] = 0.0
        f[y, x] += left[y, k.k] * right[k.k, x]
        bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"left": (H, terms), "right": (terms, W)})
        kernel = Featurizer(bound, CPU), KernelSketch((StageId("f", 0), StageId("f", 1)))
        return counts_of(*kernel, 1, 16, 1, 1)["stalls"] / terms

    assert stalls(512) > stalls(64) > stalls(8) == 0


@pytest.mark.parametrize(("dtype", "waits"), [(float32, True), (int32, False)])
def test_scalar_float_sums_stall(dtype: DType, waits: bool) -> None:
    k, image, f = RDom("k", k=(0, 1024)), Input("image", dtype, 2), Func("f")
    f[y] = cast(dtype, 0)
    f[y] += image[y, k.k]
    featurizer = Featurizer(bind(Pipeline([f.over(y=(0, H))]), {"image": (H, 1024)}), CPU)
    update = KernelSketch((StageId("f", 0), StageId("f", 1)))
    one, two, eight = (counts_of(featurizer, update, 1, points)["stalls"] for points in (1, 2, 8))
    assert (one > two > eight == 0) if waits else (one == two == eight == 0)


def test_dependent_sums_of_long_rows_are_not_unrolled() -> None:
    k = RDom("k", k=(1, H))
    f = Func("f")
    f[y, x] = IMAGE[y, x]
    f[k.k, x] = f[k.k - 1, x] * 0.5 + f[k.k, x]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    featurizer, update = Featurizer(bound, CPU), KernelSketch((StageId("f", 1),))
    short, long = (counts_of(featurizer, update, n, 1) for n in (256, 512))
    assert short["sums"] == 0
    assert long["sums"] == (H - 1) * W / 16 * 3  # two loads and a store


def test_an_update_of_one_row_moves_one_row() -> None:
    f = Func("f")
    f[y, x] = 0.0
    f[0, x] = IMAGE[0, x]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    found = counts_of(Featurizer(bound, CPU), KernelSketch((StageId("f", 1),)), 256, 1)
    assert found["cache_bytes"] == 8 * W


def test_array_read_by_several_nests_comes_from_memory_once() -> None:
    g, f = Func("g"), Func("f")
    g[y, x] = IMAGE[y, x] * 2
    f[y, x] = g[y, x] + g[y, x + 1] + IMAGE[y, x]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W - 1))]), {"image": (H, W)})
    both = KernelSketch((StageId("f"),), (ComputeLocation("g", Level.BLOCK, StageId("f")),))
    inlined = KernelSketch((StageId("f"),), inlined=frozenset({"g"}))
    featurizer = Featurizer(bound, CPU)
    uncached = CpuModel(replace(CPU, l2_bytes=0))
    fetched = [
        uncached.counts(evaluated(featurizer, sketch, *params))[0, CPU_COMPONENTS.index("memory_bytes")]
        for sketch, params in ((both, (4, 341, 1, 1, 1, 342)), (inlined, (4, 341, 1, 1)))
    ]
    assert min(fetched) >= 4 * H * (W - 1)
    assert fetched[0] == pytest.approx(fetched[1], rel=0.02)


@pytest.mark.parametrize(
    ("extent", "lanes", "missed"),
    [
        (1024, 256, MOST_MISSED[1]),
        (1024, 24, 24 / WAYS - 1),
        (1024, 8, 0),
        (1152, 256, MOST_MISSED[0]),  # 4 KB and 512 bytes
        (1152, 32, 0),
        (1040, 256, 0),
    ],
)
def test_power_of_two_strides_miss_the_first_level_cache(extent: int, lanes: int, missed: float) -> None:
    k = RDom("k", k=(0, extent))
    f = Func("f")
    f[y] = 0.0
    f[y] += IMAGE[y, k.k]
    bound = bind(Pipeline([f.over(y=(0, 2048))]), {"image": (2048, extent)})
    found = counts_of(Featurizer(bound, CPU), KernelSketch((StageId("f", 0), StageId("f", 1))), lanes, 1)
    assert found["missed_accesses"] == pytest.approx(missed * 2048 * extent)


def test_lines_beyond_the_second_level_are_fetched_again() -> None:
    k = RDom("k", k=(0, 1024))
    f = Func("f")
    f[y] = 0.0
    f[y] += IMAGE[y, k.k]
    bound = bind(Pipeline([f.over(y=(0, 8192))]), {"image": (8192, 1024)})
    target = replace(CPU, shared_per_sm=1 << 19)  # 1 MB: 256 of the lines at distances of 4 KB
    kernel = Featurizer(bound, target), KernelSketch((StageId("f", 0), StageId("f", 1)))
    few, half, many = (counts_of(*kernel, lanes, 1)["cache_bytes"] for lanes in (128, 320, 512))
    assert few < 1.1 * 4 * 8192 * 1024
    assert half - few == pytest.approx(0.5 * 64 * 8192 * 1024, rel=0.01)
    assert many - few == pytest.approx(64 * 8192 * 1024, rel=0.01)


def test_gathers_from_few_rows_hit() -> None:
    table, f = Input("table", float32, 3), Func("f")
    plane = clamp(cast(int32, IMAGE[y, x]), 0, 7)
    f[y, x] = sum((table[plane, y, x // 8 + 1024 * k] for k in range(1, 16)), table[plane, y, x // 8])
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W), "table": (8, H, 1 << 14)})
    counts = counts_of(Featurizer(bound, CPU), KernelSketch((StageId("f"),)), 1, W, 1, 1)
    assert counts["cache_bytes"] < 2 * 4 * (16 * 8 * H * W // 8 + 2 * H * W)


def test_reduction_occupies_lines_of_all_points() -> None:
    k, f = RDom("k", k=(0, 1024)), Func("f")
    f[y] = 0.0
    f[y] += IMAGE[y, k.k]
    bound = bind(Pipeline([f.over(y=(0, 2048))]), {"image": (2048, 1024)})
    kernel = Featurizer(bound, CPU), KernelSketch((StageId("f", 0), StageId("f", 1)))
    one, two = (counts_of(*kernel, 8, points)["missed_accesses"] for points in (1, 2))
    assert one == 0 < two


def test_coefficients_by_processor() -> None:
    found = evaluated(*pointwise(IMAGE[y, x]), 8, 256, 8, 1)
    for processor, rates in RATES.items():
        model = CpuModel(replace(CPU, processor=processor))
        assert tuple(rates) == CPU_COMPONENTS
        assert model.rates.tolist() == list(rates.values())
        assert model.cost(found)[0] != CpuModel(CPU).cost(found)[0]
    assert rates_of("GenuineIntel 6") is rates_of("")


def test_blocks_are_shared_by_the_cores() -> None:
    found = evaluated(*pointwise(IMAGE[y, x]), 8, 256, 8, 1)  # one row of four blocks
    alone, three = (CpuModel(replace(CPU, multiprocessors=n)).counts(found)[0] for n in (1, 3))
    work = [k for k, name in enumerate(CPU_COMPONENTS) if name not in ("kernels", "forks")]
    assert three[work] == pytest.approx(alone[work] / 2)  # the busiest core has two of four
    kernels, forks = (CPU_COMPONENTS.index(name) for name in ("kernels", "forks"))
    assert three[kernels] == alone[kernels] == 1
    assert (three[forks], alone[forks]) == (1, 0)  # one core wakes no other


def test_a_batch_costs_what_its_candidates_cost_alone_and_parts_have_names() -> None:
    around = IMAGE.clamped()
    g, f = Func("g"), Func("f")
    g[y, x] = around[y, x] * 2
    f[y, x] = g[y, x] + g[y + 1, x]
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W))]), {"image": (H, W)})
    featurizer = Featurizer(bound, CPU)
    inlined = frozenset(set(bound.funcs) - {"f", "g"})
    fused = KernelSketch((StageId("f"),), (ComputeLocation("g", Level.BLOCK, StageId("f")),), inlined)
    alone = KernelSketch((StageId("g"),), inlined=inlined)
    models = [featurizer.model(s) for s in (fused, alone)]
    tables = [np.array([[2, 64, 4, 1, 3, 64], [2, 128, 8, 1, 3, 128]], np.int64), np.array([[4, 256, 1, 1]], np.int64)]
    cpu = CpuModel(CPU)
    together = cpu.cost(featurizer.evaluate(models, tables))
    one_by_one = [
        cpu.cost(featurizer.evaluate([m], [row[None]]))[0]
        for m, table in zip(models, tables, strict=True)
        for row in table
    ]
    assert together == pytest.approx(one_by_one)
    parts = cpu.parts(featurizer.evaluate(models[1:], tables[1:]))
    assert tuple(parts) == CPU_COMPONENTS


def costed(evaluator: KernelEvaluator, schedule: Schedule) -> float:
    kernels = [describe_kernel(evaluator.bound, k) for k in schedule.kernels]
    evaluator.evaluate(kernels)
    return sum(evaluator.verdict(*k).cost for k in kernels)


def test_simpler_schedule_wins_within_tolerance() -> None:
    bound = bind(Pipeline([CHAIN.over(y=(0, H), x=(0, W))]), {"image": (W, 4 * W)})
    evaluator = KernelEvaluator(bound, CPU, analytical_model(CPU), SearchSettings())
    roots, sioutas = schedule_roots(bound, CPU), Sioutas().search(bound, CPU).best
    simple = sorted((costed(evaluator, s), n) for n, s in enumerate((roots, sioutas)))
    (first, which), (second, _) = simple
    assert second > 1.5 * first
    simpler_ones = simplest_within(evaluator, 1.15)
    assert simplest_within(evaluator, 0.0) == []
    best, other = (roots, sioutas)[which], replace(roots, kernels=roots.kernels[:0])
    for factor, expected in ((2.0, [other]), (1.1, [best, other]), (0.9, [best, other])):
        ranked = RankedSchedule(other, first / factor)
        assert [r.schedule for r in prefer_baseline([ranked], simpler_ones, 3, 1.15)] == expected
        assert prefer_baseline([ranked], [], 3, 1.15) == [ranked]
    for factor, expected in ((1.01, [other]), (0.99, [best, other])):
        competing = prefer_baseline(
            [RankedSchedule(other, first / factor)], simpler_ones, 3, SearchSettings().baseline_tolerance
        )
        assert [r.schedule for r in competing] == expected
    ranked = RankedSchedule(other, second)
    assert [r.schedule for r in prefer_baseline([ranked], simpler_ones, 3, 1.15)] == [
        best,
        (roots, sioutas)[1 - which],
        other,
    ]
    assert prefer_baseline([ranked], simpler_ones, 1, 1.15)[0].schedule == best
    assert len(prefer_baseline([ranked], simpler_ones, 2, 1.15)) == 2
    assert prefer_baseline([ranked, RankedSchedule(best, first)], simpler_ones, 9, 1.15)[0].schedule == best


def test_the_search_fuses_a_chain_of_stencils_on_a_cpu() -> None:
    around = IMAGE.clamped()
    first, second = Func("first"), Func("second")
    first[y, x] = around[y, x - 1] + around[y, x] + around[y, x + 1]
    second[y, x] = first[y - 1, x] + first[y, x] + first[y + 1, x]
    bound = bind(Pipeline([second.over(y=(0, 512), x=(0, 2048))]), {"image": (512, 2048)})
    best = Beam().search(bound, CPU).best
    assert len(best.kernels) == 1


@pytest.mark.parametrize(
    ("value", "is_one_loop"),
    [
        (lambda p, c: p[y, x, c] * 2.0, True),
        (lambda p, c: p[y, x + 1, c] + p[y, x, c], True),
        (lambda p, c: p[y, x, c] * c, False),
        (lambda p, c: p[y, x, 2 - c], False),
        (lambda p, c: p[y, x, 0], False),
    ],
)
def test_channels_that_come_last_are_lanes_of_one_loop(value: Callable[[Input, Var], Expr], is_one_loop: bool) -> None:
    pixels, f, c = Input("pixels", float32, 3), Func("f"), Var("c")
    f[y, x, c] = value(pixels, c)
    bound = bind(Pipeline([f.over(y=(0, H), x=(0, W), c=(0, 3))]), {"pixels": (H, W + 1, 3)})
    kernel = Featurizer(bound, CPU), KernelSketch((StageId("f"),))
    counts = counts_of(*kernel, 1, 64, 1, 1, 1, 3)
    assert (counts["strided_accesses"] == 0 < counts["vector_accesses"]) == is_one_loop
    chosen = schedule(bound, building_kernel(bound, [root("f", f"by={H} bx={W // 64} tx=64 sc=3")]))
    assert ("; x: 64 threads" in print_c(lower(bound, chosen)).text) == is_one_loop
