"""Tiles of producers that are read through boundary conditions: tile plus halo for every kind, in all backends."""

from __future__ import annotations

import functools
import operator

import pytest

from autosched import Func, Input, Pipeline, RDom, Var, interpret
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lang.boundary import KINDS
from autosched.lang.dtypes import int32
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.legality.validate import violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import FusedProducer, Kernel, Schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree, random_inputs
from tests.schedule.building import block, kernel, member, root, schedule, thread

DIMS = ("c", "y", "x")
STAGES = 4
REFLECTIONS = ("mirrored", "mirrored_without_edge", "wrapped")


def chain(kind: str, shape: tuple[int, ...], radius: int = 1) -> BoundPipeline:
    """Return ``f1`` to ``f4``: lopsided stencils of integers, each behind a boundary condition of its own."""
    point = tuple(Var(d) for d in DIMS[-len(shape) :])
    box = {v.name: (0, n) for v, n in zip(point, shape, strict=True)}
    stage: Func | Input = Input("img", int32, len(shape))
    for k in range(1, STAGES + 1):
        source = getattr(stage, kind)(*((7,) if kind == "constant" else ()), **box)
        stage = Func(f"f{k}")
        taps = [source[point]]
        for axis, v in enumerate(point):
            taps += [source[(*point[:axis], v + o, *point[axis + 1 :])] * (axis - 3 * o) for o in (-radius, radius)]
        stage[point] = functools.reduce(operator.add, taps)
    assert isinstance(stage, Func)
    return bind(Pipeline(stage.over(**box), name=kind), {"img": shape})


def fused(bound: BoundPipeline, tile: tuple[int, ...], whole: bool = False, radius: int = 1) -> Schedule:
    """Return one kernel with all stages but the last in shared memory, their boundary conditions inlined.

    Args:
        bound: The chain.
        tile: Points of the last stage in a block.
        whole: Whether a block computes all points of the others.
        radius: That of the chain.
    """
    shape = bound.funcs["f4"].extents
    dims = bound.funcs["f4"].dims
    blocks = " ".join(f"b{d}={-(-n // t)}" for d, n, t in zip(dims, shape, tile, strict=True))
    threads = " ".join(f"t{d}={t}" for d, t in zip(dims, tile, strict=True))
    members: list[FusedProducer] = []
    for k in range(1, STAGES):
        halo = 2 * radius * (STAGES - k)
        points = [n if whole else t + halo for n, t in zip(shape, tile, strict=True)]
        serial = [f"s{d}={-(-p // t)}" for d, p, t in zip(dims, points, tile, strict=True)]
        members.append(member(block("f4", len(dims)), dims, **{f"f{k}": f"{threads} {' '.join(serial)}"}))
    inlined = [n for n, f in bound.funcs.items() if f.boundary is not None]
    return schedule(bound, kernel(bound, [root("f4", f"{blocks} {threads}")], members, inlined))


@pytest.mark.parametrize("kind", KINDS)
def test_large_images_have_legal_tiles(kind: str) -> None:
    bound = chain(kind, (1536, 2560))
    for target in (get_target("h200"), get_target("cpu")):
        assert violations(bound, fused(bound, (8, 32)), target) == []


def extents(bound: BoundPipeline, only: Kernel) -> dict[str, tuple[int, ...]]:
    return {name: a.extents for name, a in plan_kernel(bound, only).allocations.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "tile"), [((53, 77), (8, 16)), ((49, 50, 51), (4, 4, 8))], ids=["2-D", "3-D"])
def test_tiles_have_a_halo(kind: str, shape: tuple[int, ...], tile: tuple[int, ...]) -> None:
    bound = chain(kind, shape)
    found = fused(bound, tile)
    assert extents(bound, found.kernels[0]) == {
        f"f{k}": tuple(t + 2 * (STAGES - k) for t in tile) for k in range(1, STAGES)
    }
    for target in (get_target("h200"), get_target("cpu")):
        assert violations(bound, found, target) == []
    assert_backends_agree(bound, lower(bound, found))
    if have_nvrtc():
        ScheduledPipeline(bound, found, get_target("h200")).compile("cuda")


@pytest.mark.parametrize("kind", KINDS)
def test_registers_of_a_point_of_the_boundary(kind: str) -> None:
    """``f3`` is computed per point of a tile of its boundary condition; the tile has more points than are read."""
    bound = chain(kind, (53, 77))
    edge = next(n for n, f in bound.funcs.items() if f.boundary is not None and f.stages[0].sources == ("f3",))
    tile = "ty=8 tx=16 sy=2 sx=2"
    members = [member(block("f4", 2), "yx", **{name: tile}) for name in ("f1", "f2", edge)]
    members.append(member(thread(edge, 4), "yx", f3="sy=1 sx=1"))
    inlined = [n for n in bound.funcs if n not in ("f1", "f2", "f3", "f4", edge)]
    found = schedule(bound, kernel(bound, [root("f4", "by=7 bx=5 ty=8 tx=16")], members, inlined))
    assert violations(bound, found, get_target("h200")) == []
    assert_backends_agree(bound, lower(bound, found))


@pytest.mark.parametrize("kind", REFLECTIONS)
def test_tiles_smaller_than_their_halo(kind: str) -> None:
    bound = chain(kind, (97, 131), radius=2)
    found = fused(bound, (1, 2), radius=2)
    assert extents(bound, found.kernels[0]) == {f"f{k}": (1 + 4 * (4 - k), 2 + 4 * (4 - k)) for k in range(1, STAGES)}
    assert violations(bound, found, get_target("h200")) == []
    assert_backends_agree(bound, lower(bound, found))


@pytest.mark.parametrize("kind", REFLECTIONS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (2, 3), (3, 2), (5, 7)])
def test_extents_below_the_halo_have_whole_tiles(kind: str, shape: tuple[int, int]) -> None:
    """With a radius of 5 the smaller shapes are reflected several times, or repeated."""
    bound = chain(kind, shape, radius=5)
    found = fused(bound, (2, 3), whole=True)
    tiles = extents(bound, found.kernels[0])
    assert all(n <= most for f in tiles.values() for n, most in zip(f, shape, strict=True))
    assert violations(bound, found, get_target("h200")) == []
    assert_backends_agree(bound, lower(bound, found))


def test_an_extension_needs_a_small_halo() -> None:
    """Four stages of radius 1 grow by 2, 4 and 6 points: a range of 15 points holds none, one of 32 the two last."""
    regions = {n: [chain("wrapped", (n,)).funcs[f"f{k}"].region[0] for k in (1, 2, 3)] for n in (15, 32, 48)}
    assert regions[15] == [(0, 14)] * 3
    assert regions[32] == [(0, 31), (-2, 33), (-1, 32)]
    assert regions[48] == [(-3, 50), (-2, 49), (-1, 48)]


def test_a_func_read_beyond_its_range_is_not_extended() -> None:
    """Its points there are not those a period away."""
    x, image, f, out = Var("x"), Input("img", int32, 1), Func("f"), Func("out")
    f[x] = image.clamped()[x] * 3 + image.clamped()[x + 1]
    out[x] = f.wrapped(x=(0, 64))[x - 2] - f[x - 1]
    bound = bind(Pipeline(out.over(x=(0, 64))), {"img": (64,)})
    assert bound.funcs["f"].region == ((-1, 63),)
    found = fused_pair(bound)
    assert_backends_agree(bound, lower(bound, found))


def test_an_output_is_not_extended() -> None:
    x, image, f, out = Var("x"), Input("img", int32, 1), Func("f"), Func("out")
    f[x] = image[x] * 3
    out[x] = f.wrapped(x=(0, 64))[x - 2]
    bound = bind(Pipeline([f.over(x=(0, 64)), out.over(x=(0, 64))]), {"img": (64,)})
    assert bound.funcs["f"].region == ((0, 63),)


def fused_pair(bound: BoundPipeline) -> Schedule:
    """Return ``out`` in blocks of 16 points with ``f`` in shared memory."""
    shared = member(block("out", 1), "x", f="tx=16 sx=5")
    inlined = [n for n, f in bound.funcs.items() if f.boundary is not None]
    return schedule(bound, kernel(bound, [root("out", "bx=4 tx=16")], [shared], inlined))


def test_pointwise_producers_are_extended_with_their_reader() -> None:
    """``f`` is pure in coordinates and in inputs without a boundary: these are read at the wrapped point."""
    x, image, plain = Var("x"), Input("img", int32, 1), Input("plain", int32, 1)
    g, f, out = Func("g"), Func("f"), Func("out")
    around = image.wrapped()
    g[x] = around[x - 1] * 2 - around[x + 1] + plain[x]
    f[x] = g[x] * g[x] + x
    out[x] = f.wrapped(x=(0, 64))[x - 3] - f.wrapped(x=(0, 64))[x + 1]
    bound = bind(Pipeline(out.over(x=(0, 64))), {"img": (64,), "plain": (64,)})
    assert bound.funcs["g"].region == bound.funcs["f"].region == ((-3, 64),)
    inputs = random_inputs(bound)
    assert interpret(bound.pipeline, inputs)["out"].any()
    shared = [member(block("out", 1), "x", **{name: "tx=16 sx=2"}) for name in ("g", "f")]
    inlined = [n for n, f in bound.funcs.items() if f.boundary is not None]
    found = schedule(bound, kernel(bound, [root("out", "bx=4 tx=16")], shared, inlined))
    assert extents(bound, found.kernels[0]) == {"g": (20,), "f": (20,)}
    assert violations(bound, found, get_target("h200")) == []
    assert_backends_agree(bound, lower(bound, found))


def test_updates_are_extended() -> None:
    x, image, f, out = Var("x"), Input("img", int32, 1), Func("f"), Func("out")
    around = image.wrapped()
    f[x] = around[x] + x
    f[x] = f[x] * 3 + around[x + 2] + x
    out[x] = f.wrapped(x=(0, 64))[x - 3] - f.wrapped(x=(0, 64))[x + 1]
    bound = bind(Pipeline(out.over(x=(0, 64))), {"img": (64,)})
    assert bound.funcs["f"].region == ((-3, 64),)
    shared = member(block("out", 1), "x", f="tx=16 sx=2", f__1="tx=16 sx=2")
    inlined = [n for n, g in bound.funcs.items() if g.boundary is not None]
    found = schedule(bound, kernel(bound, [root("out", "bx=4 tx=16")], [shared], inlined))
    assert violations(bound, found, get_target("h200")) == []
    assert_backends_agree(bound, lower(bound, found))


def test_a_scan_along_the_dimension_is_not_extended() -> None:
    x, image, f, out = Var("x"), Input("img", int32, 1), Func("f"), Func("out")
    r = RDom("r", k=(1, 64))
    f[x] = image.wrapped()[x]
    f[r.k] = f[r.k - 1] + image[r.k]
    out[x] = f.wrapped(x=(0, 64))[x - 3]
    bound = bind(Pipeline(out.over(x=(0, 64))), {"img": (64,)})
    assert bound.funcs["f"].region == ((0, 63),)
