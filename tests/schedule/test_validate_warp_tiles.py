"""Legality of kernels whose warps have tiles of their own."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.kernel.warp_tiles import merge_warp_loops, split_warp_loops
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.types import ComputeAt, Kernel, Level, TileAlignment
from autosched.target import get_target
from tests.schedule.building import block, blur, kernel, member, product_pipeline, root, thread, warp
from tests.schedule.mainloop_cases import in_steps, product
from tests.schedule.scans import seam

H200 = get_target("h200")
BLUR = blur(53, 77)
PRODUCT = bind(product_pipeline(), {"a": (40, 30), "b": (30, 50)})
OUT = "by=7 bx=2 wy=2 wx=2 sy=4 tx=24"
ACROSS = "sy=6 tx=24"


def blurred(out: str = OUT, across: str = ACROSS, at: ComputeAt | None = None, **changes: object) -> Kernel:
    """Return the blur with its rows in a warp's slice."""
    tile = replace(member(at or warp("out", 4), "yx", across=across), **changes)  # type: ignore[arg-type]
    return kernel(BLUR, [root("out", out)], [tile], ["img_clamped"])


ILLEGAL: dict[str, tuple[BoundPipeline, Kernel, str]] = {
    "warp loops before block loops": (
        BLUR, blurred("wy=2 by=7 bx=2 wx=2 sy=4 tx=24"), "block loops of out must come before its other loops",
    ),
    "warp loops after serial loops": (
        BLUR, blurred("by=7 bx=2 sy=4 wy=2 wx=2 tx=24"), "warp loops of out must come directly after its block loops",
    ),
    "two warp loops over one dimension": (
        BLUR, blurred("by=7 bx=2 wx=2 wx=2 sy=8 tx=12"),
        "out has two warp loops over one dimension; merge them into one",
    ),
    "warp loops of a producer": (
        BLUR, blurred(across="wy=2 sy=3 tx=24"),
        "across is computed inside a warp and cannot have warp loops; make them thread or serial",
    ),
    "no warp loops": (
        BLUR, blurred("by=14 bx=4 sy=4 tx=24", at=warp("out", 2)),
        "across is at WARP, but no root has a loop over warps; add warp loops, or compute it at BLOCK",
    ),
    "BLOCK": (
        BLUR, blurred(at=block("out", 2)),
        "across is at BLOCK in a kernel with warp loops, whose warps never wait for each other; "
        "compute it at WARP or THREAD, or remove the warp loops",
    ),
    "depth": (
        BLUR, blurred(at=warp("out", 2)),
        "across at WARP needs a root stage as host, at the depth of all its block and warp loops; "
        "out has 4 block and warp loops, and the depth is 2",
    ),
    "linear threads": (
        BLUR, replace(blurred(), linear_threads=True),
        "the threads of a warp's tile always have a linear order; set linear_threads to false",
    ),
    "more warps than tiles": (
        BLUR, blurred("by=7 bx=1 wy=2 wx=5 sy=4 tx=24"),
        "out has 5 warps of a block over x, and 4 tiles; use fewer warps or smaller tiles",
    ),
    "empty blocks": (
        BLUR, blurred("by=7 bx=3 wy=2 wx=2 sy=4 tx=24"),
        "out has 3 blocks over x, more than its 77 points need; use fewer",
    ),
    "threads of a root": (
        BLUR, blurred("by=4 bx=2 wy=1 wx=2 sy=8 tx=24 ty=2", "sy=18 tx=24"),
        "out has 48 threads in the tile of a warp, which has 32; use fewer",
    ),
    "threads of a producer": (
        BLUR, blurred(across="tx=24 ty=6"), "across has 144 threads in the tile of a warp, which has 32; use fewer",
    ),
    "a private tile": (
        BLUR, blurred(private=True),
        "across is private: only producers at BLOCK of a kernel without mainloop or sliding window can be",
    ),
    "materialised at THREAD": (
        BLUR, blurred(at=thread("out", 6), across="sy=6 sx=1", materialised=True),
        "across is materialised at THREAD: only producers at WARP can be; compute it there",
    ),
    "aligned at THREAD": (
        BLUR, blurred(at=thread("out", 6), across="sy=6 sx=1", aligned=TileAlignment(4)),
        "across: only a tile at BLOCK or WARP that has dimensions can be aligned; remove its alignment",
    ),
    "region": (
        BLUR, blurred(across="sy=5 tx=24"), "across: its loops over y cover 5 of the 6 points that its consumers need",
    ),
    "threads of a block": (
        BLUR, blurred("by=1 bx=1 wy=14 wx=4 sy=4 tx=24"),
        "32 x 56 x 1 threads per block exceed the limit of 1024 on H200; use fewer",
    ),
    "other warp loops of a root": (
        PRODUCT, kernel(PRODUCT, [root("dot", "by=5 bx=1 wy=4 wx=2 sy=2 tx=32"),
                                  root("dot.1", "by=5 bx=1 wx=2 wy=4 sy=2 tx=32 rr.k=30")]),
        r"dot\.1 has other block or warp loops than dot; root stages of a kernel share one grid",
    ),
    "a mainloop": (
        product(), in_steps(product(), "by=3 bx=3 wy=1"),
        r"a\.staged is at MAINLOOP in a kernel with warp loops, whose warps never wait for each other; "
        "compute it at WARP or THREAD, or remove the warp loops",
    ),
    "resident blocks": (
        BLUR, replace(blurred(), resident_blocks=17),
        "resident_blocks is 17, but a multiprocessor of H200 has at most 16 blocks of 128 threads; use fewer",
    ),
}  # fmt: skip
"""Pipeline, illegal kernel and reason (a regular expression)."""


@pytest.mark.parametrize("name", ILLEGAL)
def test_one_broken_rule_gives_its_reason(name: str) -> None:
    bound, wrong, reason = ILLEGAL[name]
    found, *_ = kernel_violations(bound, wrong, H200)
    assert re.fullmatch(reason, found)


def test_shared_memory_has_a_slice_for_each_warp() -> None:
    legal = blurred("by=7 bx=2 wy=2 wx=2 sy=4 tx=24")
    assert kernel_violations(BLUR, legal, replace(H200, shared_per_block_optin=4 * 576)) == []
    (reason,) = kernel_violations(BLUR, legal, replace(H200, shared_per_block_optin=4 * 576 - 1))
    assert reason.startswith("2304 bytes of shared memory exceed the limit of 2303 per block")


def test_scans_over_rows_need_blocks() -> None:
    bound = seam()
    (reason,) = kernel_violations(bound, kernel(bound, [root("m.1", "bx=1 wx=1 rr.y=8 tx=13")]), H200)
    assert "is a scan over rows, which needs whole blocks; remove the warp loops" in reason


@pytest.mark.parametrize(
    "out", [OUT, "by=7 wy=2 wx=4 sy=4 tx=24", "by=14 bx=1 wx=4 sy=4 tx=24", "bx=2 wx=2 wy=3 sy=20 tx=24"]
)
def test_tiles_are_those_of_blocks_of_one_warp(out: str) -> None:
    across = ACROSS if "sy=4" in out else "sy=22 tx=24"
    of_warps = blurred(out, across, at=warp("out", len(re.findall("[bw][yx]=", out))))
    assert kernel_violations(BLUR, of_warps, H200) == []
    merged = merge_warp_loops(BLUR, of_warps)
    assert kernel_violations(BLUR, merged, H200) == []
    assert merged.linear_threads and not merged.warp_loops
    assert [m.at.level for m in merged.fused] == [Level.BLOCK]
    warps = [(p.dim, p.extent) for p in of_warps.warp_loops]
    again = merge_warp_loops(BLUR, split_warp_loops(merged, warps))
    assert again == merged
    if "by" in out and "bx" in out:
        assert split_warp_loops(merged, warps) == of_warps


def test_warp_loops_without_producers_are_legal() -> None:
    alone = kernel(BLUR, [root("out", OUT)], (), ["across", "img_clamped"])
    assert kernel_violations(BLUR, alone, H200) == []
