"""Scans of chunks in the registers of threads, as a search schedules them, in all backends."""

from __future__ import annotations

import autosched
from autosched import Input, Pipeline, int32
from autosched.lang.idioms import cumsum
from autosched.lower.ir import Alloc, walk
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Level
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree

H200 = get_target("h200")


def test_chunks_in_registers_agree() -> None:
    """The last chunk of 39,169 elements has one of its 12."""
    length = 39_169
    scan = cumsum(Input("a", int32, 1), x=(0, length))
    found = autosched.schedule(
        Pipeline(scan.over(x=(0, length))), {"a": (length,)}, H200, cost="analytical", reuse=False
    )  # fmt: skip
    assert found.schedule.levels["cumsum_block"] is Level.THREAD
    rewritten = apply_rewrites(found.bound, found.schedule)
    program = lower(rewritten, found.schedule)
    registers = {
        s.buffer.name: s.buffer for k in program.kernels for s in walk(k.body)
        if isinstance(s, Alloc) and s.buffer.in_registers
    }  # fmt: skip
    assert any(name.startswith("cumsum_block") for name in registers)
    assert_backends_agree(rewritten, program, emulate=True)
    if have_nvrtc():
        found.compile("cuda")
