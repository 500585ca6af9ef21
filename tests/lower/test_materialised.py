"""Materialised producers: computed in a consumer's blocks and also stored to global memory."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, Var, float32, select, uint8
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.cuda import print_cuda
from autosched.errors import ScheduleError
from autosched.lower.ir import Memory, Store, walk
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.text import schedule_text
from autosched.schedule.kernel.tile_ownership import owned_box
from autosched.schedule.legality.validate import validate, violations
from autosched.schedule.plan import NestLoop
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import FusedProducer, Kernel, LoopKind, Schedule
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import block, kernel, member, root, schedule, thread, x, y

H200 = get_target("h200")


def pyramid(rows: int, columns: int) -> BoundPipeline:
    """Return a pyramid of two levels; the coarse one reads every second point of the fine one, and one before it."""
    image, fine, coarse, out = Input("image", float32, 2), Func("fine"), Func("coarse"), Func("out")
    edge = image.clamped()
    fine[y, x] = edge[y, x] * 2.0 + edge[y, x + 1]
    coarse[y, x] = fine[2 * y, 2 * x] + fine[2 * y + 1, 2 * x + 1] + fine[2 * y - 1, 2 * x]
    out[y, x] = fine[y, x] + coarse[y // 2, x // 2]
    whole = {"y": (0, rows), "x": (0, columns)}
    return bind(Pipeline([out.over(**whole)]), {"image": (rows, columns)})


def storing_kernels(bound: BoundPipeline, m: FusedProducer, first: str, second: str) -> tuple[Kernel, Kernel]:
    """Return a kernel for the coarse level, with the fine one materialised, and a kernel that reads both."""
    return (
        kernel(bound, [root("coarse", first)], [replace(m, materialised=True)], ["image_clamped"]),
        kernel(bound, [root("out", second)]),
    )


FINE = member(block("coarse", 2), "yx", fine="tx=16 ty=7 sy=3 sx=3")
FIRST, SECOND = "by=4 bx=3 tx=16 ty=7", "by=7 bx=3 tx=32 ty=8"


def legal(bound: BoundPipeline, *kernels: Kernel) -> Schedule:
    found = schedule(bound, *kernels)
    validate(bound, found, H200)
    assert from_json(to_json(bound, found), bound) == found
    return found


def global_stores(bound: BoundPipeline, found: Schedule, position: int) -> dict[str, int]:
    """Return the number of store statements to each array in global memory."""
    stores = [s.buffer for s in walk(lower(bound, found).kernels[position].body) if isinstance(s, Store)]
    names = [b.name for b in stores if b.memory is Memory.GLOBAL]
    return {name: names.count(name) for name in names}


@pytest.mark.parametrize("split_interior", [True, False])
@pytest.mark.parametrize(("rows", "columns"), [(50, 90), (56, 96), (55, 95), (49, 89)])
def test_points_of_overlapping_tiles_are_stored_once(rows: int, columns: int, *, split_interior: bool) -> None:
    bound = pyramid(rows, columns)
    found = legal(bound, *storing_kernels(bound, FINE, FIRST, SECOND))
    assert found.materialised == {"fine", "coarse", "out"}
    assert_backends_agree(bound, lower(bound, found, split_interior=split_interior))


def test_text_and_code_have_both_memories() -> None:
    bound = pyramid(50, 90)
    found = legal(bound, *storing_kernels(bound, FINE, FIRST, SECOND))
    assert "fine[y 15, x 32]: in shared memory, 1920 bytes and to global memory" in schedule_text(bound, found)
    assert set(global_stores(bound, found, 0)) == {"fine", "coarse"}
    assert "fine_tile" in print_cuda(lower(bound, found).kernels[0]).body


def test_disjoint_tiles_have_no_ownership_guard() -> None:
    image, base, left, right = Input("image", float32, 2), Func("base"), Func("left"), Func("right")
    base[y, x] = image[y, x] * 3.0
    left[y, x] = base[y, x] + 1.0
    right[y, x] = base[y, x] + left[y, 47 - x]
    whole = {"y": (0, 32), "x": (0, 48)}
    bound = bind(Pipeline([left.over(**whole), right.over(**whole)]), {"image": (32, 48)})
    tile = "by=4 bx=3 tx=16 ty=8"
    producer = replace(member(block("left", 2), "yx", base="tx=16 ty=8"), materialised=True)
    found = legal(bound, kernel(bound, [root("left", tile)], [producer]), kernel(bound, [root("right", tile)]))
    assert "if" not in print_cuda(lower(bound, found).kernels[0]).body
    assert_backends_agree(bound, lower(bound, found))


def test_the_first_of_blocks_with_the_same_tile_owns_it() -> None:
    """The blocks of every channel compute the grey image; those of the first channel store it."""
    c, image, grey, split, out = Var("c"), Input("image", uint8, 3), Func("grey"), Func("split"), Func("out")
    grey[y, x] = (image[0, y, x] + image[1, y, x]) // 3
    split[c, y, x] = image[c, y, x] - grey[y, x]
    out[y, x] = split[0, y, x] + split[1, y, x] + grey[y, x]
    bound = bind(Pipeline([out.over(y=(0, 37), x=(0, 70))]), {"image": (2, 37, 70)})
    producer = replace(member(block("split", 3), "yx", grey="tx=32 ty=8"), materialised=True)
    first = kernel(bound, [root("split", "bc=2 by=5 bx=3 tx=32 ty=8")], [producer])
    found = legal(bound, first, kernel(bound, [root("out", "by=5 bx=3 tx=32 ty=8")]))
    assert_backends_agree(bound, lower(bound, found))


def test_an_output_is_fused_into_another_output() -> None:
    image, blurred, sharp = Input("image", float32, 2), Func("blurred"), Func("sharp")
    edge = image.clamped()
    blurred[y, x] = edge[y - 1, x] + edge[y, x] + edge[y + 1, x]
    sharp[y, x] = blurred[y, x] - blurred[y, x + 1]
    box = {"y": (0, 45), "x": (0, 61)}
    wider = {"y": (0, 45), "x": (0, 62)}
    bound = bind(Pipeline([blurred.over(**wider), sharp.over(**box)]), {"image": (45, 61)})
    m = replace(member(block("sharp", 2), "yx", blurred="tx=32 ty=8 sx=2"), materialised=True)
    found = legal(bound, kernel(bound, [root("sharp", "by=6 bx=2 tx=32 ty=8")], [m], ["image_clamped"]))
    program = lower(bound, found)
    assert program.workspace_bytes == 0
    assert_backends_agree(bound, program)


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")
def test_materialised_producers_compile_for_hopper() -> None:
    bound = pyramid(1000, 1500)
    m = member(block("coarse", 2), "yx", fine="tx=16 ty=9 sy=2 sx=3")
    found = legal(bound, *storing_kernels(bound, m, "by=63 bx=47 tx=16 ty=8", "by=125 bx=47 tx=32 ty=8"))
    for code in lower(bound, found).kernels:
        printed = print_cuda(code)
        assert compile_cubin(printed.source, H200.arch).code


def test_illegal_materialised_producers() -> None:
    bound = pyramid(50, 90)

    def reason(first: Kernel, second: str = SECOND) -> str:
        return "; ".join(violations(bound, schedule(bound, first, kernel(bound, [root("out", second)])), H200))

    in_thread = replace(member(thread("coarse", 4), "yx", fine="sy=3 sx=2"), materialised=True)
    first = kernel(bound, [root("coarse", FIRST)], [in_thread], ["image_clamped"])
    assert "fine is materialised at THREAD: only producers at BLOCK can be" in reason(first)
    first, _ = storing_kernels(bound, FINE, FIRST, SECOND)
    plain = replace(first, fused=(FINE,))
    assert "fine is fused, but other kernels read it (out); materialise it or compute it at root" in reason(plain)
    late = schedule(bound, kernel(bound, [root("out", SECOND)]), first)
    assert "kernel 0 reads fine, which no earlier kernel completes" in "; ".join(violations(bound, late, H200))


def test_points_that_no_block_computes_are_refused() -> None:
    image, base, few, out = Input("image", float32, 2), Func("base"), Func("few"), Func("out")
    base[y, x] = image[y, x] * 3.0
    few[y, x] = base[2 * y, x]  # only the even rows
    out[y, x] = base[y, x] + few[y // 4, x]
    bound = bind(Pipeline([out.over(y=(0, 32), x=(0, 48))]), {"image": (32, 48)})
    m = replace(member(block("few", 2), "yx", base="tx=16 ty=1"), materialised=True)
    first = kernel(bound, [root("few", "by=8 bx=3 tx=16")], [m])
    found = violations(bound, schedule(bound, first, kernel(bound, [root("out", "by=4 bx=3 tx=16 ty=8")])), H200)
    assert found == [
        "kernel 0: base is materialised: its tiles may leave out points of y in 0..31, which other kernels or the "
        "caller read; compute it at root"
    ]


def selected_points(points: int) -> BoundPipeline:
    """Return two outputs; the second reads the first at points selected by a comparison of coordinates."""
    c, image, f, g = Var("c"), Input("image", float32, 1), Func("f"), Func("g")
    f[x] = image.clamped()[x] * 3
    g[x, c] = f[select(x < c, c, x) // 4] + 1
    return bind(Pipeline([f.over(x=(0, points)), g.over(x=(0, 26), c=(0, 3))]), {"image": (8,)})


def test_only_the_first_block_owns_tiles_with_one_origin() -> None:
    """All tiles begin at 0, as ``c`` may be selected, and each is larger than the one before; only block 0 stores."""
    bound = selected_points(7)
    g = kernel(bound, [root("g", "bx=7 tx=4 sc=3")], [replace(member(block("g", 1), "x", f="tx=7"), materialised=True)])
    g = replace(g, inlined=kernel(bound, [root("f", "bx=1 tx=7")], (), ["image_clamped"]).inlined)
    (found,) = violations(bound, schedule(bound, g), H200)
    assert found.endswith(
        "f is materialised: its tiles may leave out points of x in 0..6, which other kernels or the caller read; "
        "compute it at root"
    )
    one = replace(g, roots=(root("g", "bx=1 tx=26 sc=3"),))
    assert_backends_agree(bound, lower(bound, legal(bound, one)))


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_random_schedules_with_selected_points(target: str) -> None:
    bound, rng = selected_points(7), np.random.default_rng(3)
    drawn = [sample_schedule(bound, get_target(target), rng, varied=True) for _ in range(80)]
    storing = [s for s in drawn if any(m.materialised for k in s.kernels for m in k.fused)]
    assert storing
    for found in sorted(storing, key=most_blocks)[-4:]:
        assert_backends_agree(bound, lower(bound, found))


def most_blocks(found: Schedule) -> int:
    """Return the number of blocks of the largest grid."""
    return max(prod(p.extent for p in k.roots[0].tiling.of_kind(LoopKind.BLOCK)) for k in found.kernels)


def test_tiles_on_a_diagonal_have_no_owner() -> None:
    loop = NestLoop("b", "y", LoopKind.BLOCK, 4, 8)
    with pytest.raises(ScheduleError, match="block loop b moves its tile in both y and x, and must move one dimension"):
        owned_box({"y": loop.index(), "x": loop.index()}, [loop], "f")


def test_materialised_tiles_on_a_diagonal_are_illegal() -> None:
    """Planning succeeds all the same: a search plans kernels before it validates them."""
    image, base, few, out = Input("image", float32, 2), Func("base"), Func("few"), Func("out")
    base[y, x] = image[y, x] * 3.0
    few[y, x] = base[x, x] + image[y, x]
    out[y, x] = base[y, x] + few[y, x]
    bound = bind(Pipeline([out.over(y=(0, 32), x=(0, 32))]), {"image": (32, 32)})
    m = replace(member(block("few", 2), "yx", base="tx=16 ty=16"), materialised=True)
    first = kernel(bound, [root("few", "by=4 bx=2 tx=16 ty=8")], [m])
    found = violations(bound, schedule(bound, first, kernel(bound, [root("out", "by=4 bx=2 tx=16 ty=8")])), H200)
    assert found == [
        "kernel 0: base is materialised: block loop x_b moves its tile in both y and x, and must move one dimension; "
        "compute it at root"
    ]


def test_random_schedules_of_pyramids() -> None:
    bound = pyramid(45, 77)
    rng = np.random.default_rng(5)
    drawn = [sample_schedule(bound, H200, rng, varied=True) for _ in range(80)]
    storing = [s for s in drawn if any(m.materialised for k in s.kernels for m in k.fused)]
    assert len(storing) >= 5
    for found in storing:
        assert_backends_agree(bound, lower(bound, found))


def periodic(n: int, stretch: int, group: int, count: int) -> BoundPipeline:
    """Return an output, and another one that reads its points periodically."""
    image, f, g = Input("image", float32, 1), Func("f"), Func("g")
    f[x] = image[x] * 2.0
    g[x, y] = f[stretch * x // group % count]
    return bind(Pipeline([g.over(x=(0, n), y=(0, 2)), f.over(x=(0, count))]), {"image": (count,)})


def test_tiles_of_one_point_of_a_period_are_refused() -> None:
    """Each block has the point of its number modulo the period: together they have all, which is not derived."""
    bound = periodic(17, 1, 4, 3)
    first = kernel(
        bound,
        [root("g", "bx=5 by=1 ty=1 tx=4 sy=2")],
        [replace(member(block("g", 2), "x", f="tx=3"), materialised=True)],
    )
    with pytest.raises(ScheduleError, match="f is materialised: its tiles may leave out points of x in"):
        legal(bound, first)
    wider = replace(first, roots=(root("g", "bx=3 by=1 ty=1 tx=6 sy=2"),))
    assert_backends_agree(bound, lower(bound, legal(bound, wider)))


@pytest.mark.parametrize("case", [(17, 1, 4, 3), (31, 1, 4, 5), (24, 3, 2, 7), (40, 2, 5, 4), (33, 1, 8, 6)])
def test_random_schedules_of_periodic_points(case: tuple[int, int, int, int]) -> None:
    bound, stored = periodic(*case), 0
    for seed in range(200):
        found = sample_schedule(bound, H200, np.random.default_rng(seed), varied=True)
        if any(m.materialised for k in found.kernels for m in k.fused):
            assert_backends_agree(bound, lower(bound, found))
            stored += 1
        if stored == 5:
            break
    assert stored
