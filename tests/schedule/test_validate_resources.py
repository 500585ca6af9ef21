"""Resource limits of a device: threads, blocks, shared memory, global memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched import Func, Input, Pipeline, Var, uint8
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.kernel.memory_layout import shared_layout, workspace_layout
from autosched.schedule.legality.validate import violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import Schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.schedule.building import block, blur_pipeline, chain_pipeline, kernel, member, root, schedule

H200 = get_target("h200")


def copy(*shape: int) -> BoundPipeline:
    """A copy of an array of up to four dimensions."""
    img, out = Input("img", uint8, len(shape)), Func("out")
    dims = [Var(name) for name in "wzyx"[4 - len(shape) :]]
    out[tuple(dims)] = img[tuple(dims)]
    return bind(Pipeline([out.over(**{d.name: (0, n) for d, n in zip(dims, shape, strict=True)})]), {"img": shape})


def one_kernel(bound: BoundPipeline, tiles: str) -> Schedule:
    return schedule(bound, kernel(bound, [root("out", tiles)]))


COPY = copy(8, 70, 64, 64)
HUGE = copy(1 << 16, 1 << 16)


@pytest.mark.parametrize(
    ("bound", "tiles", "reason"),
    [
        (COPY, "bw=8 bz=70 by=2 bx=2 tx=32 ty=32", None),
        (
            COPY,
            "bw=8 bz=70 bx=1 tx=64 ty=32 sy=2",
            "64 x 32 x 1 threads per block exceed the limit of 1024 on H200; use fewer",
        ),
        (COPY, "bw=8 bz=2 by=64 bx=64 tx=1 ty=1 tz=64", None),
        (COPY, "bw=8 by=16 bx=32 tx=2 ty=4 tz=70", "70 threads in z exceed the limit of 64 on H200; use fewer"),
        (
            COPY,
            "bw=4 bz=35 by=32 bx=32 tw=2 tz=2 ty=2 tx=2",
            "out has 4 thread loops, but a block has three dimensions; make some serial",
        ),
        (COPY, "bw=8 bz=35 by=32 bx=32 tw=1 tz=2 ty=2 tx=2", None),
        (HUGE, "by=32768 bx=65536 ty=2", "2147483648 blocks exceed the limit of 2147483647 on H200; use larger tiles"),
        (HUGE, "by=32768 bx=32768 ty=2 tx=2", None),
    ],
)
def test_threads_and_blocks(bound: BoundPipeline, tiles: str, reason: str | None) -> None:
    found = violations(bound, one_kernel(bound, tiles), H200)
    assert found == ([] if reason is None else [f"kernel 0: {reason}"])


def test_a_cpu_has_its_own_limits() -> None:
    bound = copy(64, 2048)
    wide = one_kernel(bound, "by=64 bx=2 tx=1024")
    assert violations(bound, wide, H200) == []
    assert violations(bound, wide, get_target("cpu")) == [
        "kernel 0: 1024 threads in x exceed the limit of 512 on cpu; use fewer"
    ]


def big_tile(rows: int) -> tuple[BoundPipeline, Schedule]:
    """A tile of ``rows`` x 256 points with a halo in shared memory."""
    bound = bind(chain_pipeline(2), {"img": (2048, 1024)})
    tiles = f"by={2048 // rows} bx=4 tx=32 ty=32 sy={rows // 32} sx=8"
    shared = member(block("out", 2), "yx", f1=f"tx=32 ty=32 sy={rows // 32 + 1} sx=9")
    return bound, schedule(bound, kernel(bound, [root("out", tiles)], [shared], ["img_clamped"]))


def test_shared_memory_up_to_the_opt_in_limit() -> None:
    bound, fits = big_tile(256)
    needed = shared_layout(plan_kernel(bound, fits.kernels[0])).total_bytes
    row = -(-257 * 2 // 16) * 16  # whole vectors
    assert needed == 257 * row
    assert H200.shared_per_block < needed < H200.shared_per_block_optin
    assert violations(bound, fits, H200) == []
    assert violations(bound, fits, replace(H200, shared_per_block_optin=needed)) == []
    found = violations(bound, fits, replace(H200, shared_per_block_optin=needed - 1))
    assert found == [
        f"kernel 0: {needed} bytes of shared memory exceed the limit of {needed - 1} per block on H200; "
        "use smaller tiles"
    ]


def test_shared_memory_beyond_the_opt_in_limit() -> None:
    bound, too_much = big_tile(512)
    assert H200.shared_per_block_optin == 227 * 1024
    (found,) = violations(bound, too_much, H200)
    assert found.startswith("kernel 0: ") and "exceed the limit of 232448 per block on H200; " in found


def test_arrays_that_do_not_fit_the_memory() -> None:
    bound = bind(blur_pipeline(), {"img": (200_000, 100_000)})
    (found,) = violations(bound, schedule_roots(bound, H200), H200)
    arrays = 200_000 * 100_000 * 4
    assert found.startswith("its arrays need ") and "more than the 141000000000 of H200; " in found
    assert int(found.split()[3]) >= 2 * arrays
    roomy = replace(H200, memory_bytes=int(found.split()[3]))
    assert violations(bound, schedule_roots(bound, roomy), roomy) == []


def test_intermediates_share_the_workspace_over_time() -> None:
    """Of five stages in a chain at most two are live at the same time."""
    bound = bind(chain_pipeline(6), {"img": (1000, 1000)})
    names = ["f1", "f2", "f3", "f4", "f5", "out"]
    rows = {n: bound.funcs[n].extents[0] for n in names}
    chain = schedule(
        bound, *(kernel(bound, [root(n, f"by={rows[n]} bx=32 tx=32")], (), ["img_clamped"]) for n in names)
    )
    places, size = workspace_layout(bound, chain)
    assert set(places) == {(n, 0) for n in names[:-1]}
    row = 17 * 128  # 1005 points or fewer of two bytes, in an odd multiple of 128 bytes
    assert 2 * 1000 * row < size <= 2 * (1005 * row + 256)
    needed = size + 2 * 1000 * 1000 * 2
    assert violations(bound, chain, replace(H200, memory_bytes=needed)) == []
    assert len(violations(bound, chain, replace(H200, memory_bytes=needed - 1))) == 1
