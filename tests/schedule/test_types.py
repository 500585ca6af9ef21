"""Short forms of schedules and their parts, as debuggers and assertions print them."""

from __future__ import annotations

from autosched.analysis.pipeline_rewrites import HorizontalFusion, RFactor
from autosched.schedule.types import FusedProducer, Inlined, Kernel, Root, Schedule
from tests.schedule.building import block, member, root, thread

OUT = root("out", "by=7 bx=3 tx=32")
TILE = member(block("out", 2), "yx", across="tx=32 sy=2")
KERNEL = Kernel((OUT,), (TILE,), (Inlined("img_clamped", 3),))


def test_loops_and_stages() -> None:
    assert repr(OUT.tiling.loops[0]) == "<Loop block y 7>"
    assert repr(OUT.tiling) == "<StageTiling out: block y 7, block x 3, thread x 32>"
    assert repr(root("total", "").tiling) == "<StageTiling total>"


def test_roots_and_fused_producers() -> None:
    assert repr(OUT) == "<Root out: block y 7, block x 3, thread x 32>"
    assert repr(Root(root("dot.1", "rr.k=4").tiling, materialised=False)) == (
        "<Root dot.1: reduction r.k 4; in registers>"
    )
    assert repr(thread("dot.1", 4)) == "<ComputeAt THREAD in dot.1 at depth 4>"
    assert repr(TILE) == "<FusedProducer across: thread x 32, serial y 2; BLOCK in out at depth 2>"
    assert repr(KERNEL.inlined[0]) == "<Inlined img_clamped, 3 calls>"


def test_kernels() -> None:
    assert repr(KERNEL) == "<Kernel out with across at BLOCK, img_clamped at INLINE>"
    assert repr(Kernel(())) == "<Kernel nothing>"
    assert repr(Kernel((OUT,), (FusedProducer((), block("out", 2), ()),))) == "<Kernel out with no stage at BLOCK>"


def test_a_schedule_is_one_line() -> None:
    other = Kernel((root("dot", "bx=3"), root("dot.1", "bx=3")))
    assert repr(Schedule("0" * 64, (KERNEL,))) == (
        "<Schedule of 1 kernel: out with across at BLOCK, img_clamped at INLINE>"
    )
    rewritten = Schedule("0" * 64, (other, other), (RFactor("sum", 1, (("r.x", 4),)),), (HorizontalFusion(("a", "b")),))
    assert repr(rewritten) == (
        "<Schedule of 2 kernels: dot, dot.1 | dot, dot.1; rfactor sum.1; horizontal fusion a + b>"
    )
